"""The error responses of a service: code, message and HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape


class ApiError(Exception):
    """`fields` are further members of the error's shape."""

    def __init__(
        self, code: str, message: str, *, status: int = 400, fields: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.fields = dict(fields or {})


def refused(message: str) -> ApiError:
    """SageMaker's word for almost everything that is wrong with a request."""
    return ApiError("ValidationException", message)


def xml_error(service: str, message: str, *, code: str = "AccessDenied") -> bytes:
    """As REST-XML (S3) and query services write it."""
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    if service == "s3":
        return f'<?xml version="1.0" encoding="UTF-8"?><Error>{error}</Error>'.encode()
    return f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>".encode()
