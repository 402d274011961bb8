"""Access control of a server on this machine: keep out web pages that find it on localhost.

A page can send requests to any port of the machine that its browser runs on. It cannot forge the headers `Origin` and
`Host`.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from lmi_deploy.domain.local_host_names import foreign_host, ip_address
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.request_head_parser import ReceivedRequest

_WEB_PORTS = {"http": 80, "https": 443}


class Access:
    """The access rules of one listening address. `host`: the address; `origins`: pages that may manage models."""

    def __init__(self, host: str, origins: str) -> None:
        self._host = host
        self._machine = socket.gethostname()
        self._origins = frozenset(origin.strip() for origin in origins.split(",")) - {"*"}

    def check_host(self, request: ReceivedRequest) -> None:
        """`ErrorReply` for a request that arrived over loopback and names another host."""
        if refusal := foreign_host(request.header("host"), self._host, machine=self._machine):
            raise _forbidden(refusal)

    def check_origin(self, request: ReceivedRequest) -> None:
        """`ErrorReply` for a model management request that a browser sent from another site's page.

        Even `cors_allowed_origin=*` does not allow it: that setting is for inference. An origin named in it is
        allowed.
        """
        origin = request.header("origin")
        if origin is None or origin in self._origins or _same_site(origin, request.header("host") or ""):
            return
        raise _forbidden(
            f"Origin {origin} may not manage models: add it to cors_allowed_origin, or do not use a browser"
        )


def _same_site(origin: str, host: str) -> bool:
    """A page of this very server; of a name that only a resolver vouches for, none is."""
    try:
        page = urlsplit(origin)
        port = page.port or _WEB_PORTS.get(page.scheme)
        requests = urlsplit(f"http://{host}")
        same = page.hostname == requests.hostname and port == (requests.port or _WEB_PORTS["http"])
    except ValueError:
        return False
    name = page.hostname or ""
    known = name in ("localhost", socket.gethostname().lower()) or name.endswith(".localhost")
    return same and (known or ip_address(name) is not None)


def _forbidden(message: str) -> ErrorReply:
    return ErrorReply(403, "ForbiddenException", message)
