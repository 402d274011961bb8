"""The first cause of a log, by the log's structure and the vendors' messages, without an entry for the failure."""

from __future__ import annotations

import json

import pytest

from lmi_deploy.catalog.known_failures import KnownFailures, known_failures
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.planning.failure_cause import UNKNOWN_CAUSE, Cause
from lmi_deploy.planning.log_diagnosis import DiagnosisContext
from tools.diagnosis_score import fresh_score, scores
from tools.diagnosis_split import SAMPLES, failures

NO_ENTRIES = DiagnosisContext(known=KnownFailures((), known_failures().noise))
"""As if no failure were known: what the structure alone shows."""
FRAME = '  File "/usr/lib/python3/dist-packages/{}", line {}, in {}'


def first(log: str, around: DiagnosisContext = NO_ENTRIES) -> Cause:
    return find_causes(log.strip("\n").splitlines(), around)[0]


def interleaved(*ranks: list[str]) -> str:
    """Lines of several ranks, mixed as they arrive."""
    named = [[f"(Worker_TP{rank} pid={rank + 10}) ERROR 10-21 11:22:33 [x.py:600] {line}" for line in lines]
             for rank, lines in enumerate(ranks)]  # fmt: skip
    return "\n".join(line for step in zip(*named, strict=True) for line in step)


def test_ranks_that_echo_one_traceback_are_one_cause() -> None:
    lines = [
        "WorkerProc failed to start.",
        "Traceback (most recent call last):",
        FRAME.format("vllm/x.py", 5, "init"),
        "    worker.init_device()",
        "AssertionError: 14336 is not divisible by 3",
    ]
    causes = find_causes(interleaved(lines, lines).splitlines(), NO_ENTRIES)
    assert (causes[0].line, len(causes)) == (9, 1)
    assert causes[0].source.startswith("vllm ")
    assert "option.tensor_parallel_degree" in causes[0].settings


def test_reason_in_a_line_of_our_own_server_is_the_cause() -> None:
    found = first(
        """
lmi emulator: stand-in for vLLM: a package in its place checks options that are not supported
2026-11-23T21:14:08.715+00:00 INFO  one worker serves many requests at once; on a CPU, DJLServing would start another
2026-11-23T21:14:08.716+00:00 ERROR the server failed to start phase=start worker_exit=None why=/srv/x: too many links
"""
    )
    assert (found.line, found.wrapper) == (3, False)


def test_innermost_exception_of_a_chain_is_the_cause() -> None:
    found = first(
        f"""
Traceback (most recent call last):
{FRAME.format("pack/store.py", 7, "read")}
OSError: [Errno 30] Read-only file system: '/opt/ml/model/cache'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
{FRAME.format("pack/load.py", 9, "load")}
RuntimeError: could not prepare
"""
    )
    assert (found.line, found.id) == (3, "file-permission")
    assert "Read-only" in found.evidence


def test_exception_that_was_only_a_probe_is_not_the_cause() -> None:
    found = first(
        f"""
Traceback (most recent call last):
{FRAME.format("transformers/auto.py", 7, "read")}
KeyError: 'qwen99'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{FRAME.format("transformers/auto.py", 9, "load")}
ValueError: The checkpoint you are trying to load has model type `qwen99` but Transformers does not recognize this
"""
    )
    assert found.line == 9


def test_last_caused_by_of_java_is_the_cause_and_not_its_headline() -> None:
    found = first(
        """
[ERROR] ModelServer - Failed register workflow
java.util.concurrent.CompletionException: ai.djl.ModelException: no model
	at java.base/x(Y.java:3)
Caused by: ai.djl.ModelException: no model
	at ai.djl.x(Y.java:3)
Caused by: java.io.IOException: layer.7 has an odd length of 13 bytes
	... 7 more
"""
    )
    assert found.line == 6


def test_unknown_failure_is_named_with_its_place() -> None:
    found = first(
        f"""
[INFO ] PyProcess - W-1-m-stdout: Traceback (most recent call last):
[INFO ] PyProcess - W-1-m-stdout: {FRAME.format("frobnicate/core.py", 33, "spin")}
[INFO ] PyProcess - W-1-m-stdout: frobnicate.SpinTrouble: the flux is at 11
[WARN ] PyProcess - retry: 1
"""
    )
    assert (found.line, found.cause, found.confidence) == (3, UNKNOWN_CAUSE, "low")
    assert found.source == "frobnicate/core.py:33 in spin"


def test_line_of_pydantic_that_names_the_mistake_is_the_evidence() -> None:
    found = first(
        """
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/x/site-packages/vllm/config.py", line 3, in f
(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig
(APIServer pid=1)   Value error, max_num_partial_prefills (0) must be greater than or equal to 1. [type=value_error]
"""
    )
    assert (found.line, found.settings) == (4, ("option.max_num_partial_prefills",))
    assert "`self.max_num_partial_prefills < 1`" in found.cause
    assert "options.max_num_partial_prefills" in found.remedy


def test_failure_before_a_restart_comes_before_those_after_it() -> None:
    log = [
        "[INFO ] PyProcess - W-1-m-stdout: the flux capacitor has left its socket",
        "[ERROR] PyProcess - Python stream closed unexpectedly, exit code: 1",
        "[WARN ] PyProcess - retry: 1, Restart python process ...",
        "[INFO ] PyProcess - W-2-m-stdout: ValueError: Free memory on device (3/21 GiB) is less than desired",
    ]
    assert [cause.line for cause in find_causes(log)][:2] == [1, 4]


def test_process_that_ended_without_a_message_was_probably_killed() -> None:
    log = [
        "ERROR Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
        "[WARN ] PyProcess - retry: 1, Restart python process ...",
        "[INFO ] PyProcess - W-2-m-stdout: ValueError: Free memory on device (3/21 GiB) is less than desired",
    ]
    found = first("\n".join(log))
    assert (found.line, found.wrapper) == (1, False)
    assert "killed" in found.cause


@pytest.mark.parametrize(
    "log",
    [
        ["INFO 10-21 11:22:33 [model.py:547] Resolved architecture: LlamaForCausalLM"],
        ["WARNING 10-21 11:22:33 [x.py:1] Traceback follows? No: falling back to eager"],
        ["Setting `pad_token_id` to `eos_token_id`:2 for open-end generation."],
        ["/x/y.py:10: UserWarning: cannot use this, using that instead"],
        [],
        ["", "   "],
        [each["line"] for each in json.loads(SAMPLES.read_text(encoding="utf-8"))["noise"]],
    ],
)
def test_harmless_lines_have_no_cause(log: list[str]) -> None:
    assert find_causes(log) == []


def test_only_a_wrapper_is_said_to_be_one() -> None:
    causes = find_causes(["RuntimeError: Engine core initialization failed. See root cause above."])
    assert [(cause.wrapper, cause.confidence) for cause in causes] == [(True, "low")]


def test_known_failure_keeps_its_own_cause_and_link() -> None:
    found = find_causes(["x", "ModuleNotFoundError: No module named 'flash_attn'"])[0]
    assert (found.id, found.line, found.confidence) == ("module-not-found", 2, "high")
    assert found.more == "lmi explain module-not-found"


def test_error_code_of_aws_is_explained_by_its_service_model() -> None:
    found = first(
        "An error occurred (ModelNotReadyException) when calling the InvokeEndpoint operation: wait"
    )
    assert "AWS on this error:" in found.cause


def test_numbers_of_an_excerpt_are_kept() -> None:
    found = find_causes([(7, "starting"), (90_001, "ValueError: Unknown kv cache dtype: x")])
    assert found[0].line == 90_001


def test_parts_of_the_split_share_no_class() -> None:
    train, left = ({entry["id"] for entry in failures(part)} for part in ("train", "left-out"))
    assert not train & left
    assert len(left) / len(train | left) == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize("part", ["train", "left-out"])
def test_failures_outside_the_table_are_found_and_explained(part: str) -> None:
    score = scores()[part]
    assert score["right"] / score["failures"] >= 0.95
    assert score["explained"] / score["failures"] >= 0.80
    assert score["mistaken"] == 0


def test_failures_of_public_issues_are_found() -> None:
    score = fresh_score()
    assert score["right"] / score["failures"] >= 0.95
    assert score["explained"] / score["failures"] >= 0.80


def test_message_of_a_c_plus_plus_exception_is_its_cause() -> None:
    found = first(
        """
terminate called after throwing an instance of 'std::runtime_error'
  what():  engine plan was built for another device
"""
    )
    assert found.line == 2


def test_lines_of_docker_compose_are_read_without_the_name_of_the_container() -> None:
    found = first(
        """
embed-1  | 2025-04-23T03:14:07.818830Z ERROR backend: src/lib.rs:255: Could not start: cannot find tensor a.weight
embed-1  | Error: Could not create backend
"""
    )
    assert (found.line, found.id) == (1, "weights-mismatch")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("TypeError: code() takes at most 16 arguments (18 given)", "python-version"),
        (
            "onnx runtime error 2: Failed to load model with error: Unknown model file format version.",
            "model-format",
        ),
        ("OSError: /x/torchvision.libs/libcudart.so.12: cannot open shared object file", "missing-symbol"),
    ],
)
def test_kind_of_a_failure(message: str, kind: str) -> None:
    assert first(message).id == kind


def test_heading_of_nccl_is_no_failure() -> None:
    log = [
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317",
        "Some other line",
        "Last error:",
        "Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)",
    ]
    assert "Last error:" not in [cause.evidence for cause in find_causes(log)]
    assert find_causes(["Last error:"]) == []
