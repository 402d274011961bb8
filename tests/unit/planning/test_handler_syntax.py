"""The check of a user's model.py before it is deployed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.planning.handler_syntax import HandlerRequirements, check_handler

ROOT = Path(__file__).resolve().parents[3]
FINE = """\
from djl_python import Input, Output

def handle(inputs: Input) -> Output | None:
    if inputs.is_empty():
        return None
    return Output().add("ok")
"""
ASYNC = FINE.replace("def handle", "async def handle")

FATAL = [
    ("def handle(inputs)\n    pass\n", {}, 1, "syntax error: expected ':'"),
    ("x = 1\n\n\n  y = 2\n", {}, 4, "syntax error: unexpected indent"),
    ("x = '\0'", {}, 1, "source code string cannot contain null bytes"),
    ("", {}, 1, "no function handle; it defines no function"),
    ("def predict(x):\n    pass\n", {}, 1, "no function handle; it defines predict"),
    (FINE, {"function": "answer"}, 1, "no function answer; it defines handle"),
    ("class A:\n    def handle(self, x):\n        pass\n", {}, 1, "no function handle"),
    ("def handle():\n    pass\n", {}, 1, "handle() cannot be called with one argument"),
    ("def handle(a, b):\n    pass\n", {}, 1, "handle(a, b) cannot be called with one argument"),
    ("def handle(a, *, b):\n    pass\n", {}, 1, "handle(a, *, b) cannot be called with one argument"),
    (ASYNC, {}, 3, "handle is asynchronous, but the server does not await it"),
    (FINE, {"async_mode": True}, 3, "handle is not asynchronous, but the server awaits"),
    ("def handle(x):\n    yield 1\n", {}, 1, "handle is a generator"),
    ("async def handle(x):\n    yield 1\n", {"async_mode": True}, 1, "handle is a generator"),
    ("def handle(x):\n    return {'a': 1}\n", {}, 2, "returns a dict, but the server accepts only an Output"),
    ("def handle(x):\n    if x:\n        return 'no'\n    return None\n", {}, 3, "returns a text"),
    ("import json\ndef handle(x):\n    return json.dumps({})\n", {}, 3, "returns a text"),
    ("def handle(x):\n    return [1]\n", {}, 2, "returns a list"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected", "line", "what"), FATAL, ids=[what[:50] for *_, what in FATAL])
def test_handler_the_server_would_refuse_is_an_error_at_its_line(
    source: str, expected: dict[str, object], line: int, what: str
) -> None:
    found = [each for each in check_handler(source.encode(), HandlerRequirements(**expected)) if each.fatal]  # type: ignore[arg-type]
    assert [each.line for each in found] == [line]
    assert what in found[0].what
    assert found[0].hint


GOOD = [
    FINE,
    "def handle(inputs, context=None):\n    pass\n",
    "def handle(*args, **more):\n    pass\n",
    "def handle(inputs):\n    def inner():\n        return {'a': 1}\n    return make(inner)\n",
    "import functools\n@functools.cache\ndef handle(a, b):\n    pass\n",
    "from djl_python.huggingface import handle\n",
    "from djl_python.huggingface import *\n",
    "handle = make()\n",
    "if True:\n    def handle(x):\n        return None\n",
    "try:\n    import absent\nexcept ImportError:\n    absent = None\n\ndef handle(x):\n    return None\n",
]


@pytest.mark.parametrize("source", GOOD)
def test_working_handler_is_accepted(source: str) -> None:
    assert check_handler(source.encode(), HandlerRequirements()) == ()


def test_wrong_return_in_one_branch_is_a_warning() -> None:
    (found,) = check_handler(FINE.replace("return None", "return {}").encode(), HandlerRequirements())
    assert (found.line, found.fatal) == (5, False)


def test_async_handler_is_accepted_in_async_mode() -> None:
    assert check_handler(ASYNC.encode(), HandlerRequirements(async_mode=True)) == ()
    gives_awaitable = b"def handle(x):\n    return work(x)\n"
    assert check_handler(gives_awaitable, HandlerRequirements(async_mode=True)) == ()


def test_heavy_work_at_import_is_a_warning() -> None:
    code = f"from transformers import AutoModel\nmodel = AutoModel.from_pretrained('x')\n{FINE}"
    (found,) = check_handler(code.encode(), HandlerRequirements(packages=("transformers==4.57.6",)))
    assert (found.line, found.fatal) == (2, False)
    assert "from_pretrained(...) runs at import" in found.what
    main = f"{FINE}\nif __name__ == '__main__':\n    load_model()\n"
    assert check_handler(main.encode(), HandlerRequirements()) == ()


def test_missing_imports_are_reported_once() -> None:
    code = f"import cv2\nfrom PIL import Image\nimport cv2.aruco\nimport torch, os\n{FINE}"
    results = check_handler(code.encode(), HandlerRequirements(packages=("torch==2.13.0",)))
    assert [(each.line, each.what.split(",")[0], each.fatal) for each in results] == [
        (1, "imports cv2", False),
        (2, "imports PIL", False),
    ]
    uploaded = HandlerRequirements(
        packages=("torch==2.13.0",), requirements="opencv-python>=4\nPillow  # images\n"
    )
    assert check_handler(code.encode(), uploaded) == ()
    unknown = HandlerRequirements(requirements="git+https://example.org/x.git\n")
    assert check_handler(code.encode(), unknown) == ()


@pytest.mark.parametrize(
    "template", sorted((ROOT / "templates").glob("*/model.py")), ids=lambda path: path.parent.name
)
def test_our_templates_pass(template: Path) -> None:
    packages = accelerate.ENGINE.packages(HandlerSpec(entry_point="model.py", template=template.parent.name))
    assert check_handler(template.read_bytes(), HandlerRequirements(packages=packages)) == ()
