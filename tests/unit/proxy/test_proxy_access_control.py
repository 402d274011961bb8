"""Who may use the proxy."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.secret import Secret
from lmi_deploy.proxy.access_control import ProxyAccess
from lmi_deploy.proxy.openai_error import OpenAIError


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST.", "app.localhost", ""]
)
def test_names_of_this_machine(name: str) -> None:
    ProxyAccess("127.0.0.1", None).check_host({b"host": name.encode()})


@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1"]
)
def test_a_page_that_lets_its_name_point_here_is_kept_out(name: str) -> None:
    with pytest.raises(OpenAIError, match="not a name of this machine") as refused:
        ProxyAccess("127.0.0.1", None).check_host({b"host": name.encode()})
    assert refused.value.status == 403
    ProxyAccess("0.0.0.0", Secret("k")).check_host({b"host": name.encode()})


@pytest.mark.parametrize("given", [b"", b"Bearer", b"Bearer no", b"Basic key", b"key", b"Bearer \xff"])
def test_only_the_key_opens(given: bytes) -> None:
    with pytest.raises(OpenAIError) as refused:
        ProxyAccess("127.0.0.1", Secret("key")).check_key({b"authorization": given})
    assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")
    assert "key'" not in refused.value.message


def test_the_key_and_no_key() -> None:
    ProxyAccess("127.0.0.1", Secret("key")).check_key({b"authorization": b"Bearer key"})
    ProxyAccess("127.0.0.1", None).check_key({})


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://evil.example:80", "null", "http://10.0.0.1"]
)
def test_page_of_another_machine_is_refused(origin: str) -> None:
    with pytest.raises(OpenAIError, match="may not use this proxy") as refused:
        ProxyAccess("127.0.0.1", None).check_origin({b"origin": origin.encode()})
    assert refused.value.status == 403


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8000", "http://[::1]:1"])
def test_page_of_this_machine_is_accepted(origin: str) -> None:
    ProxyAccess("127.0.0.1", None).check_origin({b"origin": origin.encode()})
