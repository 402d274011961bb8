"""Pages of a list of the management API, as `ListPagination` of DJLServing cuts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.server.error_responses import parse_integer

_MOST = 100


@dataclass(frozen=True, slots=True)
class Page:
    """From `first` up to, not including, `last`."""

    first: int
    last: int

    @classmethod
    def read(cls, query: Mapping[str, str], size: int) -> Page:
        """`limit` and `next_page_token`; `ErrorReply` for an invalid number."""
        limit = parse_integer(query.get("limit") or str(_MOST), 409)
        first = max(parse_integer(query.get("next_page_token") or "0", 409), 0)
        return cls(first, min(first + (limit if 0 <= limit <= _MOST else _MOST), size))
