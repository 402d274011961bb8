"""Every known failure is diagnosed from its own lines, similar ones by their context; noise gives no
diagnosis."""

from __future__ import annotations

import json
import re
import time

import pytest

from lmi_deploy.catalog.known_failures import failures, noise
from lmi_deploy.planning.log_diagnosis import DiagnosisContext, diagnose
from tools.generate_failures import SAMPLES, TABLE, table

WRITTEN = json.loads(SAMPLES.read_text(encoding="utf-8"))
ENTRIES = WRITTEN["failures"]
SHARED = {
    line for line in (line for entry in ENTRIES for line in entry["lines"])
    if sum(line in entry["lines"] for entry in ENTRIES) > 1
}  # fmt: skip
FRAME = '  File "/usr/lib/python3/x.py", line 12, in {}'


def around(entry: dict[str, object]) -> DiagnosisContext:
    return DiagnosisContext(
        where=str(entry["where"]), engine=str(entry.get("engine", "")), facts=entry.get("given", {})
    )  # type: ignore[arg-type]


def stream(entry: dict[str, str], lines: list[str]) -> list[str]:
    """The lines as a log has them: with a prefix, and the traceback that the entry requires."""
    frames = [FRAME.format(entry["frames"].split("|")[0])] if "frames" in entry else []
    noisy = [each["line"] for each in WRITTEN["noise"][:3]]
    return [
        *noisy,
        *frames,
        *(f"(EngineCore_0 pid=71) INFO PyProcess W-1-model-stdout: {line}" for line in lines),
    ]


def diagnosed(lines: list[str], context: DiagnosisContext) -> str | None:
    found = diagnose(lines, context)
    return found.id if found else None


def other_values(line: str) -> str:
    """The same line with other numbers and names where the samples have any."""
    line = re.sub(r"<[\w/ -]+>", "some-thing_7", line)
    return re.sub(
        r"(?<![A-Za-z\d])\d+",
        lambda found: found[0] if found[0] in KEPT_NUMBERS else str(int(found[0]) + 1),
        line,
    )


KEPT_NUMBERS = {
    "9",
    "137",
    "28",
    "8",
    "16",
    "4",
    "1",
    "0",
    "5",
    "803",
    "403",
    "401",
    "404",
    "400",
    "429",
    "503",
    "500",
    "530",
    "63",
    "52",
    "32",
}


def test_failure_table_equals_the_generated_one() -> None:
    assert json.loads(TABLE.read_text(encoding="utf-8")) == table(), "run python -m tools.generate_failures"


def test_entries_are_diagnosed_from_their_own_lines() -> None:
    wrong = []
    for entry in ENTRIES:
        lines: list[str] = entry["lines"]
        alone = [line for line in lines if line not in SHARED or entry.get("given") or entry.get("frames")]
        logs = [lines, *([line] for line in alone), *([other_values(line)] for line in alone)]
        wrong += [
            (entry["id"], log) for log in logs if diagnosed(stream(entry, log), around(entry)) != entry["id"]
        ]
    assert wrong == []


def test_entries_are_diagnosed_without_knowing_the_source() -> None:
    found = {
        entry["id"]: diagnosed(stream(entry, entry["lines"]), DiagnosisContext(facts=entry.get("given", {})))
        for entry in ENTRIES
    }
    assert found == {name: name for name in found}


def test_noise_gives_no_diagnosis() -> None:
    assert [each["line"] for each in WRITTEN["noise"] if diagnose([each["line"]]) is not None] == []


def test_every_entry_has_cause_remedy_and_source() -> None:
    for failure in failures():
        assert failure.cause.endswith((".", "?")), failure.id
        assert failure.remedy.endswith("."), failure.id
        assert failure.source, failure.id
        assert "{" not in re.sub(
            rf"\{{(?:{'|'.join(_groups(failure.patterns))})\}}", "", failure.cause + failure.remedy
        )
    assert len({failure.id for failure in failures()}) == len(failures()) >= 239


def _groups(patterns: object) -> set[str]:
    named = [set(re.compile(each.text).groupindex) for each in patterns]  # type: ignore[attr-defined]
    return set.intersection(*named) if named else set()


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB."
LOOK_ALIKE = [
    ([FRAME.format("load_model"), FRAME.format("create_weights"), OOM], "cuda-oom-load"),
    ([FRAME.format("determine_available_memory"), FRAME.format("forward"), OOM], "cuda-oom-kv-profile"),
    ([FRAME.format("execute_model"), FRAME.format("forward"), OOM], "cuda-oom-runtime"),
    ([OOM], "cuda-oom-torch2-format"),
    (["RuntimeError: Engine core initialization failed.", "ValueError: Unknown kv cache dtype: x"],
     "vllm-kv-cache-dtype"),
    (["Python process exited unexpectedly with code: 137", "retry: 1",
      "ValueError: Free memory on device (3/21 GiB) on startup is less than desired GPU memory utilization"],
     "djl-python-exit-137"),
    (["OSError: [Errno 28] No space left on device: '/tmp/x'"], "no-space-left-disk"),
    (["NCCL WARN Call to posix_fallocate failed : No space left on device"], "nccl-shm-posix-fallocate"),
    (["WARN pip install requirements failed.", "ModuleNotFoundError: No module named 'x'"], "djl-requirements-failed"),
    (["EntryNotFoundError: 404. Entry Not Found for url: https://h/x", "ModuleNotFoundError: No module named 'x'"],
     "module-not-found"),
    (['ModelError: Received server error (503) from primary with message "{\\"message\\": \\"Worker queue '
      'capacity exceeded for model: m\\"}"'], "djl-queue-full"),
    (["ERROR Worker proc VllmWorker-1 died unexpectedly, shutting down executor."], "vllm-worker-died"),
    (["Worker proc VllmWorker-1 died unexpectedly", "ValueError: No available memory for the cache blocks."],
     "vllm-no-memory-for-cache-blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), LOOK_ALIKE, ids=[expected for _, expected in LOOK_ALIKE])
def test_similar_failures_are_distinguished(lines: list[str], expected: str) -> None:
    assert diagnosed(lines, DiagnosisContext()) == expected


def test_wrapper_error_is_marked_as_wrapper() -> None:
    found = diagnose(["RuntimeError: Engine core initialization failed. See root cause above."])
    assert found is not None
    assert found.wrapper


def test_cause_contains_values_of_the_line() -> None:
    found = diagnose(["x", "ModuleNotFoundError: No module named 'flash_attn'"])
    assert found is not None
    assert (found.line, found.evidence) == (2, "ModuleNotFoundError: No module named 'flash_attn'")
    assert "flash_attn" in found.cause
    assert found.more == "lmi explain module-not-found"


def test_fact_outside_the_log_can_be_the_evidence() -> None:
    found = diagnose([], DiagnosisContext(facts={"EndpointStatus": "Failed"}))
    assert found is not None
    assert (found.id, found.evidence, found.line) == (
        "endpoint-status-failed-only-delete",
        "EndpointStatus: Failed",
        0,
    )
    assert diagnose(["all is well"]) is None


def test_long_log_is_diagnosed_quickly() -> None:
    lines = [
        f"INFO {number} Python process: step {number} of model took {number * 3} ms"
        for number in range(10_000)
    ]
    started = time.process_time()
    found = diagnose([*lines, "ValueError: Unknown kv cache dtype: x"])
    assert found is not None
    assert found.line == 10_001
    assert time.process_time() - started < 5, "a tenth of it is usual"


def test_every_pattern_has_a_literal_of_four_characters() -> None:
    for failure in failures():
        for each in (*failure.patterns, *noise()):
            assert len(each.literal) >= 4, failure.id
