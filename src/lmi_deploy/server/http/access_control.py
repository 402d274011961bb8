"""Access control of a server on this machine: keep out web pages that find it on localhost.

A page can send requests to any port of the machine that its browser runs on. A page cannot forge two headers:
`Origin`, and `Host`, which names the page's own host if that was made to point here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.request_head_parser import ReceivedRequest

_MOST_REMEMBERED = 64
_WEB_PORTS = {"http": 80, "https": 443}


class Access:
    """The access rules of one listening address. `host`: the address; `origins`: pages that may manage models."""

    def __init__(self, host: str, origins: str) -> None:
        self._local = is_loopback(host)
        self._origins = frozenset(origin.strip() for origin in origins.split(",")) - {"*"}
        self._accepted: set[str] = set()

    def check_host(self, request: ReceivedRequest) -> None:
        """`ErrorReply` for a request that arrived over loopback and names another host."""
        host = request.header("host")
        if host is None or not self._local or host in self._accepted:
            return
        if not is_local_name(name_of_host(host)):
            raise _forbidden(
                f"Host {host} is not a name of this machine, and the server listens only on loopback: "
                "use localhost or 127.0.0.1, or configure the proxy to send one of them as Host"
            )
        if len(self._accepted) < _MOST_REMEMBERED:
            self._accepted.add(host)

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


def is_loopback(host: str) -> bool:
    """Whether a server at `host` can be reached only from this machine."""
    address = _address(host)
    return address.is_loopback if address is not None else host.lower() == "localhost"


def name_of_host(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def is_local_name(name: str) -> bool:
    """Whether no page of the public web can have that host name.

    An address is no name; a name without a dot and one in `.localhost` or `.internal` (host.docker.internal) is in no
    public DNS (RFC 6761; ICANN reserved `.internal`).
    """
    return (
        "." not in name
        or _address(name) is not None
        or name.endswith((".localhost", ".internal"))
        or name == socket.gethostname().lower()
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
    return same and (known or _address(name) is not None)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _forbidden(message: str) -> ErrorReply:
    return ErrorReply(403, "ForbiddenException", message)
