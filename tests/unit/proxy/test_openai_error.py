"""Errors of servers and of SageMaker in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lmi_deploy.errors import AccessError, LmiError, NotFound, UsageRefused
from lmi_deploy.proxy.openai_error import OpenAIError, aws_error, of_lmi_error, server_error, unknown_model


def test_the_shape_is_openais() -> None:
    error = json.loads(unknown_model("x", ("a", "b")).body)["error"]
    assert error == {
        "message": "the model 'x' does not exist; this proxy serves a, b",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_an_error_without_a_reason_gets_the_usual_one() -> None:
    body = b'{"code":424,"message":"Async Inference Failure service.invoke_handler_async() failure"}'

    assert "prompt and max_tokens together exceed max_model_len" in server_error(424, body).message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
    ],
)
def test_the_type_follows_the_status(status: int, kind: str) -> None:
    assert OpenAIError(status, "x").fields["type"] == kind


@pytest.mark.parametrize(
    ("status", "content", "message", "code"),
    [
        (400, b'{"error": {"message": "m", "param": "p", "code": "c"}}', "m", "c"),
        (424, b'{"code": 424, "message": "invoke handler failure", "error": "boom"}', "boom", "model_error"),
        (503, b'{"code": 503, "type": "WlmCapacityException", "message": "queue full"}', "queue full", None),
        (413, b"", "the server responded 413", None),
        (500, b"plain text", "plain text", "model_error"),
    ],
)
def test_a_model_server(status: int, content: bytes, message: str, code: str | None) -> None:
    error = server_error(status, content)
    assert (error.status, error.message, error.code) == (status, message, code)
    assert error.retry_after == (1 if status == 503 else None)


def test_the_time_to_wait_is_the_servers() -> None:
    assert server_error(429, b"", retry_after="17").retry_after == 17


@pytest.mark.parametrize(
    ("code", "message", "fields", "status", "expected"),
    [
        (
            "ModelError",
            "m",
            {"OriginalStatusCode": 400, "OriginalMessage": '{"error": "bad"}'},
            424,
            (400, None),
        ),
        ("ModelError", "timed out", {"OriginalStatusCode": 0}, 424, (504, "model_timeout")),
        ("ModelNotReadyException", "m", {}, 429, (503, "model_not_ready")),
        ("ThrottlingException", "Rate exceeded", {}, 400, (429, "rate_limit_exceeded")),
        ("ValidationError", "Endpoint x of account 1 not found.", {}, 400, (404, "endpoint_not_found")),
        (
            "ValidationError",
            "Inference Component has no capacity to process this request. ApplicationAutoScaling may be",
            {},
            400,
            (503, "model_not_ready"),
        ),
        (
            "ValidationError",
            "Member must have length less than or equal to 6291456",
            {},
            400,
            (413, "request_too_large"),
        ),
        ("AccessDeniedException", "not authorized", {}, 400, (403, "aws_access_denied")),
        ("InvalidSignatureException", "m", {}, 403, (503, "aws_credentials")),
        ("ServiceUnavailable", "m", {}, 503, (503, "ServiceUnavailable")),
        ("InternalDependencyException", "m", {}, 530, (503, "InternalDependencyException")),
    ],
)
def test_sagemaker(
    code: str, message: str, fields: dict[str, Any], status: int, expected: tuple[int, str]
) -> None:
    error = aws_error(code, message, fields, status=status)
    assert (error.status, error.code) == expected
    if error.status in (429, 503) and error.code != "aws_credentials":
        assert error.retry_after is not None


@pytest.mark.parametrize(
    ("error", "status"), [(NotFound, 404), (UsageRefused, 400), (AccessError, 503), (LmiError, 503)]
)
def test_our_own_errors_keep_their_hint(error: type[LmiError], status: int) -> None:
    found = of_lmi_error(error("what", hint="do this"))
    assert (found.status, found.message) == (status, "what; do this")


def test_djl_serving_without_a_worker_is_no_mistake_of_the_client() -> None:
    body = {"code": 400, "type": "TranslateException", "message": "Backend Python process is stopped."}
    assert server_error(400, json.dumps(body).encode()).status == 503
