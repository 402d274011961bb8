"""Our signature is botocore's, for any request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.inference_http import SigningKeys
from lmi_deploy.domain.secret import Secret
from lmi_deploy.inference_client.sigv4 import RequestSigner

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
words = st.text(PLAIN, min_size=1, max_size=20)
paths = st.lists(
    st.text(f"{PLAIN}-_.~%+:@ ", min_size=1, max_size=12).filter(lambda part: part.strip(".")), max_size=4
)
values = st.text(f"{PLAIN} ;=/,.:\"'", max_size=30)
# No two that differ by case alone: they are one header.
headers = st.dictionaries(words.map(lambda word: f"X-{word.lower()}"), values, max_size=5)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1))


class BotocoreSignature(SigV4Auth):  # type: ignore[misc]
    """At a given moment."""

    def __init__(self, moment: datetime, *given: Any) -> None:
        super().__init__(*given)
        self._moment = moment

    def add_auth(self, request: Any) -> None:
        request.context["timestamp"] = self._moment.strftime("%Y%m%dT%H%M%SZ")
        self._modify_request_before_signing(request)
        canonical = self.canonical_request(request)
        self._inject_signature_to_request(
            request, self.signature(self.string_to_sign(request, canonical), request)
        )


@given(
    parts=paths,
    given_headers=headers,
    body=st.binary(max_size=200),
    keys=st.tuples(words, words, st.none() | words),
    scope=st.tuples(words, words),
    moment=moments,
)
def test_a_request_is_signed_as_botocore_signs_it(
    parts: list[str],
    given_headers: dict[str, str],
    body: bytes,
    keys: tuple[str, str, str | None],
    scope: tuple[str, str],
    moment: datetime,
) -> None:
    from urllib.parse import quote

    path = "/" + "/".join(quote(part) for part in parts)
    access, secret, token = keys
    request = AWSRequest(method="POST", url=f"https://example.org{path}", data=body, headers=given_headers)
    BotocoreSignature(moment, Credentials(access, secret, token), scope[1], scope[0]).add_auth(request)
    signing = SigningKeys(
        access_key=access, secret_key=Secret(secret), token=Secret(token) if token else None
    )
    signed = RequestSigner(*scope).sign(
        signing,
        path=path,
        headers={"Host": "example.org", **given_headers},
        body=body,
        now=moment.replace(tzinfo=UTC),
    )
    assert signed["Authorization"] == request.headers["Authorization"]


def test_the_key_of_a_day_follows_day_and_secret() -> None:
    signer = RequestSigner("eu-west-1", "sagemaker")

    def signature(secret: str, day: int) -> str:
        keys = SigningKeys(access_key="A", secret_key=Secret(secret))
        now = datetime(2026, 11, day, tzinfo=UTC)
        return signer.sign(keys, path="/", headers={"Host": "h"}, body=b"", now=now)["Authorization"]

    first = signature("one", 1)
    assert len({first, signature("two", 1), signature("one", 2)}) == 3
    assert signature("one", 1) == first
