"""The table of the vendors' messages: what it recognises, and how little it tries."""

from __future__ import annotations

import zlib

import pytest

from lmi_deploy.catalog.failure_classes import class_of, failure_classes
from lmi_deploy.catalog.vendor_messages import TABLE, LookupCount, vendor_messages
from tools.message_templates import HOLE, java_templates, python_templates

ROWS = zlib.decompress(TABLE.read_bytes()).decode().split("\n")[1:]


def test_table_is_compact_and_holds_thousands_of_messages() -> None:
    assert len(ROWS) > 10_000
    assert TABLE.stat().st_size < 1_500_000


def test_message_is_found_with_its_source_and_condition() -> None:
    found = vendor_messages().find("ValueError: LoRA rank 64 is greater than max_lora_rank 16.")
    assert found is not None
    assert (found.package, found.exception, found.warning) == ("vllm", "ValueError", False)
    assert "max_lora_rank" in found.condition
    assert found.place.startswith(f"vllm {found.versions[-1]}, vllm/lora/")


@pytest.mark.parametrize(
    ("frames", "path"),
    [
        (
            ("vllm/v1/engine/core.py", "vllm/model_executor/model_loader/default_loader.py"),
            "default_loader.py",
        ),
        (
            ("/usr/lib/dist-packages/vllm/model_executor/model_loader/bitsandbytes_loader.py",),
            "bitsandbytes_loader.py",
        ),
        (
            ("/opt/site-packages/sglang/srt/model_loader/loader.py", "own.py"),
            "sglang/srt/model_loader/loader.py",
        ),
        (("own.py",), "bitsandbytes_loader.py"),
    ],
)
def test_place_of_a_message_of_several_files_is_that_of_the_traceback(
    frames: tuple[str, ...], path: str
) -> None:
    message = "Cannot find any model weights with `/opt/ml/model`"
    found = vendor_messages().find(message, frames=frames)
    assert found is not None
    assert found.path.endswith(path)
    assert found.condition == "len(hf_weights_files) == 0"


def test_every_template_recognises_its_own_message() -> None:
    missed = []
    for row in ROWS[::97]:
        template = row.split("\t")[-1].replace("\x02", "\n")
        message = " ".join(template.replace(HOLE, " 42 ").split())
        if vendor_messages().find(message) is None:
            missed.append(message)
    assert missed == []


def test_line_of_a_log_costs_hardly_any_pattern() -> None:
    count = LookupCount()
    for number in range(2_000):
        vendor_messages().find(
            f"INFO Engine {number}: Avg prompt throughput: 3.1 tokens/s, Running: 9 reqs", count
        )
        vendor_messages().find(
            f"INFO request {number} for model chat was received and took 3 ms of GPU time", count
        )
    assert count.texts == 4_000
    assert count.patterns < 4_000


def test_nothing_is_found_in_other_words() -> None:
    assert vendor_messages().find("the flux capacitor is on the table") is None
    assert vendor_messages().find("") is None


@pytest.mark.parametrize("code", ["ResourceLimitExceeded", "ModelNotReadyException", "NoSuchBucket"])
def test_codes_of_aws_are_explained(code: str) -> None:
    assert vendor_messages().aws_error(code).endswith(".")


def test_classes_are_complete_and_have_sentences() -> None:
    for each in failure_classes():
        assert each.cause.endswith("."), each.id
        assert each.remedy.endswith("."), each.id


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-memory"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "disk-full"),
        ("ValueError: 40 attention heads must be divisible by tensor parallel size 3", "parallel-degree"),
        ("PermissionError: [Errno 13] Permission denied: '/opt/ml/model/x'", "file-permission"),
        ("ImportError: libcudart.so.12: cannot open shared object file", "missing-symbol"),
        ("RuntimeError: The NVIDIA driver on your system is too old", "driver"),
        ("SyntaxError: invalid syntax", "own-code"),
        ("the flux is at 11 of 10", None),
    ],
)
def test_class_goes_by_words(message: str, expected: str | None) -> None:
    found = class_of(message)
    assert (found.id if found else None) == expected


SOURCE = """
LIMIT = "the limit"
def check(self, size, name):
    if size > self.max_size:
        raise ValueError(f"{name} has {size} bytes, more "
                         f"than {LIMIT}")
    else:
        msg = "no %s in %d files" % (name, size)
        msg += " of the model"
        raise KeyError(msg)
    assert size, "size {} is zero".format(size)
    try:
        load()
    except OSError:
        logger.warning("cannot load %s, using the default", name)
"""


def test_templates_of_python_have_their_conditions() -> None:
    found = {each.text.replace(HOLE, "*"): each for each in python_templates(SOURCE)}
    assert [*found] == [
        "* has * bytes, more than *",
        "no * in * files of the model",
        "size * is zero",
        "cannot load *, using the default",
    ]
    first, second, third, fourth = found.values()
    assert (first.exception, first.condition, first.line) == ("ValueError", "size > self.max_size", 5)
    assert (second.exception, second.condition) == ("KeyError", "not (size > self.max_size)")
    assert (third.exception, third.condition) == ("AssertionError", "not (size)")
    assert (fourth.kind, fourth.condition) == ("W", "except OSError")
    assert list(python_templates("def broken(:")) == []


def test_templates_of_java_are_read_by_tokens() -> None:
    source = 'if (count > limit) { throw new EngineException("Too many: " + count + " of " + name(a, b)); }'
    (found,) = java_templates(source)
    assert (found.text.replace(HOLE, "*"), found.exception) == ("Too many: * of *", "EngineException")
    assert found.condition == "count > limit"
