"""The Host and Origin headers that a local server accepts."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.access_control import Access
from lmi_deploy.server.http.request_head_parser import ReceivedRequest

LOCAL = Access("127.0.0.1", "https://console.example")
OPEN = Access("0.0.0.0", "*")


def host_refused(access: Access, host: str) -> bool:
    return refused(access.check_host, Host=host)


def origin_refused(access: Access, origin: str, host: str = "localhost:8080") -> bool:
    return refused(access.check_origin, Host=host, Origin=origin)


def refused(check: Callable[[ReceivedRequest], None], **headers: str) -> bool:
    try:
        check(ReceivedRequest("POST", "/models", list(headers.items())))
    except ErrorReply as refusal:
        return refusal.status == 403
    return False


def test_foreign_host_is_refused_only_on_loopback() -> None:
    assert host_refused(LOCAL, "evil.example")
    assert not host_refused(OPEN, "evil.example")
    for host in ("localhost:8080", socket.gethostname()):
        assert not host_refused(LOCAL, host)
    assert not refused(LOCAL.check_host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8080", "localhost:8080"),
        ("http://127.0.0.1", "127.0.0.1"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://console.example", "localhost:8080"),
    ],
)
def test_local_page_can_manage_models(origin: str, host: str) -> None:
    assert not origin_refused(LOCAL, origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "localhost:8080"),
        ("http://localhost:3000", "localhost:8080"),
        ("null", "localhost:8080"),
        ("", "localhost:8080"),
        ("http://evil.example:8080", "evil.example:8080"),  # DNS rebinding
        ("http://evil.example:99999999", "localhost"),
        ("http://[::1", "localhost"),
        ("http://x:8080", "x:8080"),
    ],
)
def test_foreign_page_can_never_manage_models(origin: str, host: str) -> None:
    assert origin_refused(LOCAL, origin, host)
    assert origin_refused(OPEN, origin, host)


def test_request_without_an_origin_can_manage_models() -> None:
    assert not refused(LOCAL.check_origin, Host="localhost")
