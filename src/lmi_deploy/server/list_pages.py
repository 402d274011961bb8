"""Pages of a list of the management API, as `ListPagination` of DJLServing cuts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.server.error_responses import ErrorReply

_MOST = 100


@dataclass(frozen=True, slots=True)
class Page:
    """From `first` up to, not including, `last`."""

    first: int
    last: int

    @classmethod
    def read(cls, query: Mapping[str, str], size: int) -> Page:
        """`limit` and `next_page_token`; `ErrorReply` for an invalid number."""
        limit, first = _number(query, "limit", _MOST), max(_number(query, "next_page_token", 0), 0)
        return cls(first, min(first + (limit if 0 <= limit <= _MOST else _MOST), size))


def _number(query: Mapping[str, str], key: str, usual: int) -> int:
    try:
        return int(query.get(key) or usual)
    except ValueError as exc:
        raise ErrorReply(409, "NumberFormatException", f'For input string: "{query[key]}"') from exc
