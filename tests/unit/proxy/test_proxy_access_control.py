"""Who may use the proxy."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.secret import Secret
from lmi_deploy.proxy.access_control import ProxyAccess
from lmi_deploy.proxy.openai_error import OpenAIError


def test_a_page_that_lets_its_name_point_here_is_kept_out() -> None:
    with pytest.raises(OpenAIError, match="not a name of this machine") as refused:
        ProxyAccess("127.0.0.1", Secret("k")).check_host({b"host": b"evil.example"})
    assert refused.value.status == 403
    ProxyAccess("127.0.0.1", Secret("k")).check_host({b"host": b"localhost:8000"})
    ProxyAccess("0.0.0.0", Secret("k")).check_host({b"host": b"evil.example"})


@pytest.mark.parametrize("given", [b"", b"Bearer", b"Bearer no", b"Basic key", b"key", b"Bearer \xff"])
def test_only_the_key_opens(given: bytes) -> None:
    with pytest.raises(OpenAIError) as refused:
        ProxyAccess("127.0.0.1", Secret("key")).check_key({b"authorization": given})
    assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")
    assert "key'" not in refused.value.message


def test_the_key_opens() -> None:
    ProxyAccess("127.0.0.1", Secret("key")).check_key({b"authorization": b"Bearer key"})
