"""Heads and bodies of HTTP responses, byte for byte as the real server writes them."""

from __future__ import annotations

import http
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lmi_deploy.server.error_responses import ErrorReply, parse_integer
from lmi_deploy.server.workers.djl_protocol import Pair, WorkerResponse, alphabetical

JSON_TYPE: tuple[Pair, ...] = (("content-type", "application/json"),)
NEVER_CACHED: tuple[Pair, ...] = (
    ("Pragma", "no-cache"),
    ("Cache-Control", "no-cache; no-store, must-revalidate, private"),
    ("Expires", "Thu, 01 Jan 1970 00:00:00 UTC"),
)
_OURS = {"content-length", "connection", "x-request-id", "pragma", "cache-control", "expires"}
# Gson writes these as escapes so that JSON can be embedded in HTML.
_HTML_SAFE = {ord(char): f"\\u{ord(char):04x}" for char in "'<>&=\u2028\u2029"}
_LONGEST_PAGE = 100
_NO_TOKEN = re.compile(r"[^!#$%&'*+\-.^_`|~0-9A-Za-z]")
_NO_VALUE = re.compile(r"^[\x00-\x20\x7f]|[\x00-\x08\x0a-\x1f\x7f]")
_LINE_END = re.compile(r"[\r\n]")
_REASONS = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
_STATUS_CLASSES = {
    1: "Informational", 2: "Success", 3: "Redirection", 4: "Client Error", 5: "Server Error"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Response:
    """One whole response."""

    status: int
    headers: Sequence[Pair] = ()
    body: bytes = field(default=b"", repr=False)
    reason: str = ""


def json_response(value: object, status: int = 200, reason: str = "") -> Response:
    """The server's own JSON: two spaces, HTML-safe, a newline at the end."""
    text = json.dumps(value, indent=2, ensure_ascii=False).translate(_HTML_SAFE)
    return Response(status, JSON_TYPE, f"{text}\n".encode(), reason)


def list_response(
    key: str, items: Sequence[object], query: Mapping[str, str], *, always_next: bool = False
) -> Response:
    """One page of a list, as `ListPagination` of DJLServing cuts it by `limit` and `next_page_token`.

    `ErrorReply` for an invalid number. `always_next`: a next page is named even if there is none.
    """
    limit = parse_integer(query.get("limit") or str(_LONGEST_PAGE), 409)
    first = max(parse_integer(query.get("next_page_token") or "0", 409), 0)
    last = min(first + (limit if 0 <= limit <= _LONGEST_PAGE else _LONGEST_PAGE), len(items))
    following = {"nextPageToken": str(last)} if last < len(items) or always_next else {}
    return json_response({**following, key: items[first:last]})


def status_response(text: str, status: int = 200) -> Response:
    return json_response({"status": text}, status)


def error_response(refusal: ErrorReply, status: int) -> Response:
    """`{code, type, message}`; a message of None is left out."""
    response = {"code": status, "type": refusal.kind, "message": refusal.message}
    return json_response({k: v for k, v in response.items() if v is not None}, status, refusal.reason or "")


def handler_head(response: WorkerResponse) -> tuple[list[Pair], str]:
    """Headers and reason of a handler's response: its message is the reason of every status but 200.

    `ErrorReply` for a status that the real server's library does not accept.
    """
    reason = "" if response.code == 200 else response.message
    if response.code < 0:
        raise _illegal(f"code : {response.code} (expected: >= 0)")
    if _LINE_END.search(reason):
        raise _illegal(f"reasonPhrase contains one of the following prohibited characters: \\r\\n: {reason}")
    return handler_headers(response.properties), reason


def handler_headers(properties: Iterable[Pair]) -> list[Pair]:
    """The headers that a handler set, sorted: the first spelling and the last value of each; headers that belong to
    the server are left out.

    Raises `ErrorReply` for a name or value that is not allowed in an HTTP head.
    """
    kept: dict[str, Pair] = {}
    for name, value in properties:
        _check_header(name, value)
        lowered = name.lower()
        kept[lowered] = (kept[lowered][0] if lowered in kept else name, value)
    return alphabetical([pair for lowered, pair in kept.items() if lowered not in _OURS])


def _check_header(name: str, value: str) -> None:
    if not name:
        raise _illegal("empty headers are not allowed []")
    if bad := _NO_TOKEN.search(name):
        found = f"0x{ord(bad[0]):x} at index {bad.start()} of header '{name}'."
        raise _illegal(
            f'a header name can only contain "token" characters, but found invalid character {found}'
        )
    if bad := _NO_VALUE.search(value):
        raise _illegal(
            f"a header value contains prohibited character 0x{ord(bad[0]):x} at index {bad.start()}."
        )


def _illegal(message: str) -> ErrorReply:
    return ErrorReply(500, "IllegalArgumentException", message)


def reason_of(status: int) -> str:
    if status in _REASONS:
        return _REASONS[status]
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return f"{_STATUS_CLASSES.get(status // 100, 'Unknown Status')} ({status})"


def head(status: int, reason: str, headers: Iterable[Pair]) -> bytes:
    """Status line and headers, ready for the socket."""
    lines = ["", *(f"{name}: {value}" for name, value in headers), "", ""]
    first = f"HTTP/1.1 {status} {reason}".encode("ascii", "replace")
    return first + "\r\n".join(lines).encode("latin-1", "replace")


def chunk(blob: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(blob), blob)


LAST_CHUNK = b"0\r\n\r\n"
