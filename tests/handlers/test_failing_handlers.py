"""Handlers and models that really fail, in DJL's own engine: each is diagnosed from the worker's output."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lmi_deploy.planning.log_diagnosis import Diagnosis, diagnose
from tests.handlers.handler_worker import serving, worker
from tests.support.handler_driver import Worker
from tests.support.running_server import launched, write_model
from tests.support.sample_model import cached_tiny_model

FINE = """from djl_python import Output

def handle(inputs):
    return None if inputs.is_empty() else Output().add('ok')
"""
PROPERTIES = "engine=Python\nminWorkers=1\nmaxWorkers=1\n"


@dataclass(frozen=True)
class HandlerFailure:
    """A model folder that fails to start, the id of its failure, and a word of the remedy."""

    id: str
    handler: str
    output: str
    properties: str = ""
    arguments: tuple[str, ...] = ()


CASES = [
    HandlerFailure("module-not-found", f"import nothing_of_that_name\n{FINE}", "nothing_of_that_name"),
    HandlerFailure("import-name", f"from json import nothing\n{FINE}", "requirements"),
    HandlerFailure("handler-syntax", "def handle(inputs)\n    return None\n", "line above"),
    HandlerFailure("handler-missing", "def predict(inputs):\n    return None\n", "option.handler"),
    HandlerFailure("handler-signature", "def handle():\n    return None\n", "def handle(inputs)"),
    HandlerFailure("handler-signature", "def handle(inputs, context):\n    return None\n", "default values"),
    HandlerFailure("handler-coroutine", "async def handle(inputs):\n    return None\n", "async_mode"),
    HandlerFailure(
        "handler-not-async", FINE.replace("None if", "Output() if"), "async def", "option.async_mode=true\n"
    ),
    HandlerFailure(
        "handler-output-type", "def handle(inputs):\n    return {'ready': True}\n", "Output().add"
    ),
    HandlerFailure(
        "async-handler-invalid-return",
        "async def handle(inputs):\n    return {'ready': True}\n",
        "yield Outputs",
        "option.async_mode=true\n",
    ),
    HandlerFailure("entrypoint-not-found", FINE, "correct the name", "option.entryPoint=other.py\n"),
    HandlerFailure(
        "memory-cpu", "def handle(inputs):\n    raise MemoryError('the weights do not fit')\n", "bf16"
    ),
    HandlerFailure(
        "djl-python-exit-137",
        "import os, signal\n\ndef handle(inputs):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
        "more memory",
    ),
    HandlerFailure(
        "no-space-left-disk",
        "def handle(inputs):\n    with open('/dev/full', 'w') as file:\n        file.write('x' * 100_000)\n",
        "Free some space",
    ),
    HandlerFailure(
        "loading-timeout",
        "import time\n\ndef handle(inputs):\n    time.sleep(30)\n",
        "timeouts.model_loading",
        "option.model_loading_timeout=1\n",
    ),
    HandlerFailure("worker-not-run", FINE, "--python", arguments=("--python", "/nowhere/bin/python")),
]


def diagnosis_of(folder: Path, error: HandlerFailure, *more: str) -> Diagnosis | None:
    write_model(folder, error.handler, PROPERTIES + error.properties)
    with launched(folder, "--port", "0", *error.arguments, *more) as served:
        assert served.wait() == 1, served.text
        response = served.failure()
    return diagnose([response["message"], *response["last_lines"]])


@pytest.mark.worker
@pytest.mark.parametrize("error", CASES, ids=[f"{error.id}-{at}" for at, error in enumerate(CASES)])
def test_handler_failure_is_diagnosed(error: HandlerFailure, tmp_path: Path) -> None:
    found = diagnosis_of(tmp_path / "m", error)
    assert found is not None
    assert found.id == error.id
    assert error.output in f"{found.cause} {found.remedy}"
    assert not found.wrapper


@pytest.mark.worker
def test_port_in_use_is_diagnosed(tmp_path: Path) -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = str(own.getsockname()[1])
        found = diagnosis_of(tmp_path / "m", HandlerFailure("port-taken", FINE, ""), "--port", port)
    assert found is not None
    assert found.id == "port-taken"
    assert port in found.cause


# --- Models that transformers cannot load -----------------------------------------------------------------------


def _pointer(model: Path) -> None:
    (model / "model.safetensors").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4711\n"
    )


def _cut(model: Path) -> None:
    content = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(content[: len(content) // 2])


def _without_tokenizer(model: Path) -> None:
    for path in (*model.glob("tokenizer*"), *model.glob("special*"), *model.glob("chat_template*")):
        path.unlink()


def _without_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def _without_config(model: Path) -> None:
    (model / "config.json").unlink()


def _with_missing_shard(model: Path) -> None:
    (model / "model.safetensors").unlink()
    weights = ("model.embed_tokens.weight", "model.norm.weight")
    placed = {name: f"model-0000{at}-of-00002.safetensors" for at, name in enumerate(weights, start=1)}
    index = {"metadata": {"total_size": 1000}, "weight_map": placed}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def _configured(**changes: object) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        changed = {key: value for key, value in {**config, **changes}.items() if value is not None}
        (model / "config.json").write_text(json.dumps(changed))

    return change


AUTO_MAP = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
MODELS: list[tuple[str, Callable[[Path], None], Mapping[str, str]]] = [
    ("safetensors-header", _pointer, {}),
    ("safetensors-header|safetensors-not-covered", _cut, {}),
    ("tokenizer-missing|tokenizer-protobuf-sentencepiece", _without_tokenizer, {}),
    ("tf-no-weights-file", _without_weights, {}),
    ("tar-nested-folder|tf-unrecognized-model", _without_config, {}),
    ("missing-safetensors-shard|tar-nested-folder", _with_missing_shard, {}),
    ("tf-model-type-unknown", _configured(model_type="gemma99"), {}),
    ("tf-unrecognized-model", _configured(model_type=None), {}),
    ("tf-trust-remote-code", _configured(model_type="own", auto_map=AUTO_MAP), {}),
    ("lmi-invalid-dtype", lambda model: None, {"dtype": "fp8"}),
    ("cuda-not-here", lambda model: None, {"device_map": "cuda"}),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("handler")) as one:
        yield one


@pytest.mark.model
@pytest.mark.parametrize(("ids", "spoil", "options"), MODELS, ids=[ids for ids, _, _ in MODELS])
def test_model_load_failure_is_diagnosed(
    running: Worker,
    tmp_path_factory: pytest.TempPathFactory,
    ids: str,
    spoil: Callable[[Path], None],
    options: Mapping[str, str],
) -> None:
    # transformers looks for the names of model types in the path ("dia" is one): the name of this test stays out.
    model = tmp_path_factory.mktemp("m") / "model"
    shutil.copytree(cached_tiny_model(serving()), model)
    spoil(model)
    before = len(running.log)
    reply = running.load(model_id=model, **options)
    assert reply.code == 424
    found = diagnose([*running.log[before:], reply.json["error"]])
    assert found is not None, running.log[before:]
    assert found.id in ids.split("|")
    assert found.cause
    assert found.remedy
