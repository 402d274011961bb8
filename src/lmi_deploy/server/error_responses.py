"""Why the server itself, not the handler, returns an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIGURABLE = {
    "WlmException": ("wlm_error_http_code", 503),
    "WlmShutdownException": ("wlm_error_http_code", 503),
    "WlmCapacityException": ("throttle_error_http_code", 503),
    "TimeoutException": ("timeout_http_code", 408),
    "TranslateException": ("bad_request_http_code", 400),
}


class ErrorReply(Exception):
    """`kind` is the name of the real server's exception class, which clients see as `type`."""

    def __init__(self, status: int, kind: str, message: str | None, *, reason: str | None = None) -> None:
        super().__init__(message or kind)
        self.status = status
        self.kind = kind
        self.message = message
        self.reason = reason

    def status_by(self, keys: Mapping[str, str]) -> int:
        """The status after overrides of config.properties; ValueError if that is not a number."""
        key, usual = CONFIGURABLE.get(self.kind, ("server_error_http_code" if self.status == 500 else "", 0))
        if key and self.status == (usual or 500) and key in keys:
            return int(keys[key])
        return self.status


def parse_integer(text: str, status: int) -> int:
    """`ErrorReply` of this status for a text that is no integer."""
    try:
        return int(text)
    except ValueError as exc:
        raise ErrorReply(status, "NumberFormatException", f'For input string: "{text}"') from exc


def unknown_path() -> ErrorReply:
    message = "Requested resource is not found, please refer to API document."
    return ErrorReply(404, "ResourceNotFoundException", message)


def wrong_method() -> ErrorReply:
    message = "Requested method is not allowed, please refer to API document."
    return ErrorReply(405, "MethodNotAllowedException", message)


def unknown_model(name: str, what: str = "Model or workflow") -> ErrorReply:
    return ErrorReply(404, "ModelNotFoundException", f"{what} not found: {name}")


def bad_request(message: str) -> ErrorReply:
    """Found while parsing: the real server puts the message on the status line, too."""
    return ErrorReply(400, "BadRequestException", message, reason=message)


def not_ready(name: str) -> ErrorReply:
    return ErrorReply(503, "WlmException", f"Model is not ready: {name}")


def at_capacity(name: str) -> ErrorReply:
    return ErrorReply(503, "WlmCapacityException", f"Worker queue capacity exceeded for model: {name}")


def shut_down(name: str) -> ErrorReply:
    return ErrorReply(503, "WlmShutdownException", f"All model workers has been shutdown: {name}")


def not_loaded(why: str) -> ErrorReply:
    return ErrorReply(500, "EngineException", why)


def disconnected() -> ErrorReply:
    cause = "java.util.concurrent.ExecutionException: java.io.IOException: Python worker disconnected."
    return ErrorReply(503, "WlmException", cause)


def timed_out() -> ErrorReply:
    return ErrorReply(503, "WlmException", "java.util.concurrent.TimeoutException")


def untranslatable(message: str) -> ErrorReply:
    return ErrorReply(400, "TranslateException", message)


def unsafe_folder(folder: Path, reason: str) -> ErrorReply:
    message = (
        f"{folder} is not registered, because its code would run as the server's user: {reason}. Change the owner of "
        "the folder and its parents to that user (chown), and let no other user write there (chmod go-w)."
    )
    return ErrorReply(403, "ForbiddenException", message)
