"""The Host and Origin headers that a local server accepts."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.access_control import Access, is_loopback
from lmi_deploy.server.http.request_head_parser import ReceivedRequest

LOCAL = Access("127.0.0.1", "https://console.example")
OPEN = Access("0.0.0.0", "*")


def host_refused(access: Access, *hosts: str) -> bool:
    return refused(access.check_host, **{"Host": hosts[0]} if hosts else {})


def origin_refused(access: Access, origin: str, host: str = "localhost:8080") -> bool:
    return refused(access.check_origin, Host=host, Origin=origin)


def refused(check: Callable[[ReceivedRequest], None], **headers: str) -> bool:
    try:
        check(ReceivedRequest("POST", "/models", list(headers.items())))
    except ErrorReply as refusal:
        return refusal.status == 403
    return False


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]", "10.0.0.7:1", "", "x", "x folded",
        "model.localhost:80", "host.docker.internal:8080", "localhost.", socket.gethostname(),
    ],
)  # fmt: skip
def test_host_that_may_be_this_machine_is_accepted(host: str) -> None:
    assert not host_refused(LOCAL, host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "a.internal.example",
    ],
)
def test_foreign_host_is_refused_only_on_loopback(host: str) -> None:
    assert host_refused(LOCAL, host)
    assert not host_refused(OPEN, host)


def test_missing_host_header_is_accepted() -> None:
    assert not host_refused(LOCAL)


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


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_loopback_addresses_are_recognised(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
