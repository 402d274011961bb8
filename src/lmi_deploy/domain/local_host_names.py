"""The Host header of a request to a server that only this machine can reach.

Every web page that a browser of this machine opens can send requests to that server: the page's own name can be made to
point here (DNS rebinding). The page cannot change the header, which has its name.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache


def foreign_host(header: str | None, listens_at: str, *, machine: str = "") -> str:
    """Why a request with this Host is refused; empty if it is not. `machine`: another name that is accepted."""
    if header is None or not is_loopback(listens_at):
        return ""
    name = host_name(header)
    if name == machine.lower() or is_local_name(name):
        return ""
    shown = header[:100].encode("ascii", "backslashreplace").decode()
    return (
        f"Host {shown} is not a name of this machine, and the server listens only on loopback: use localhost or "
        "127.0.0.1. Configure a proxy in front of it to send one of them as Host"
    )


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a server at `host` can be reached only from this machine."""
    address = ip_address(host)
    return address.is_loopback if address is not None else host.lower() == "localhost"


def host_name(header: str) -> str:
    """A Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower().rstrip(".")


@lru_cache(maxsize=64)
def is_local_name(name: str) -> bool:
    """Whether no page of the public web can have that host name.

    An address is no name; a name without a dot and one in `.localhost` or `.internal` (host.docker.internal) is in no
    public DNS (RFC 6761; ICANN reserved `.internal`).
    """
    return "." not in name or ip_address(name) is not None or name.endswith((".localhost", ".internal"))


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
