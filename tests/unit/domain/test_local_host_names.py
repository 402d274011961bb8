"""The Host headers that a server on loopback accepts."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.local_host_names import foreign_host, is_loopback


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "10.0.0.7:1",
            "",
            "x",
            "x folded",
        ),
        *("model.localhost:80", "host.docker.internal:8080", "localhost.", "Build.Example:80", None),
    ],
)
def test_host_that_may_be_this_machine_is_accepted(host: str | None) -> None:
    assert foreign_host(host, "127.0.0.1", machine="build.example") == ""


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("a.internal.example", "evil\udcff.example"),
    ],
)
def test_host_of_a_web_page_is_refused_on_loopback(host: str) -> None:
    refusal = foreign_host(host, "127.0.0.1")
    assert "is not a name of this machine" in refusal
    assert refusal.isascii(), "it is sent in a header"
    assert foreign_host(host, "0.0.0.0") == ""


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_loopback_addresses_are_recognised(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
