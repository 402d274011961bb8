"""Which line of a log is the handler's own error."""

from __future__ import annotations

import pytest

from lmi_deploy.planning.traceback_error import error_line, lead_with_error

PING = (
    "The primary container for production variant main did not pass the ping health check. "
    "Please check CloudWatch logs for this endpoint."
)
BEGIN = "Traceback (most recent call last):"
PLAIN = """
INFO  ModelServer starting
W-101-model-stdout: Traceback (most recent call last):
W-101-model-stdout:   File "/opt/djl/djl_python_engine.py", line 161, in run_server
W-101-model-stdout:     outputs = self.service.invoke_handler(function_name, inputs)
W-101-model-stdout:   File "/opt/ml/model/model.py", line 7, in load
W-101-model-stdout:     raise ValueError("pooling: no such mode")
W-101-model-stdout: ValueError: pooling: no such mode
ERROR ModelServer ai.djl.engine.EngineException: Failed to initialize model: prediction failure
java.util.concurrent.CompletionException: ai.djl.ModelException
"""
CHAINED = """
Traceback (most recent call last):
  File "model.py", line 3, in load
    open("weights")
FileNotFoundError: [Errno 2] No such file or directory: 'weights'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "model.py", line 5, in load
    raise RuntimeError("no weights") from None
RuntimeError: no weights
Python engine process died
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (PLAIN, "ValueError: pooling: no such mode"),
        (CHAINED, "RuntimeError: no weights"),
        (f"{BEGIN}\n  x\ntorch.OutOfMemoryError: out of memory\nmore", "torch.OutOfMemoryError: out of memory"),
        (f"{BEGIN}\n  x\nKeyboardInterrupt", "KeyboardInterrupt"),
        ("ValueError: in passing, no traceback", ""),
        ("Exception in thread main java.lang.IllegalStateException: x", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_error_line_is_the_end_of_the_first_traceback(log: str, line: str) -> None:
    assert error_line(log.splitlines()) == line


def test_worker_error_leads_where_only_the_ping_failure_is_known() -> None:
    failed, reason = f"tiny: the endpoint is Failed: {PING}", f"FailureReason: {PING}"
    output = lead_with_error(failed, [*PLAIN.splitlines(), reason])
    assert output.startswith(
        "tiny: the endpoint is Failed: ValueError: pooling: no such mode (SageMaker: The primary container"
    )
    assert lead_with_error(failed, [reason]) == failed
    assert lead_with_error(failed, PLAIN.splitlines()) == failed
    other = "tiny: the endpoint is Failed: no capacity"
    assert lead_with_error(other, [*PLAIN.splitlines(), "FailureReason: no capacity"]) == other
