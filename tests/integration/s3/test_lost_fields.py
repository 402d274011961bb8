"""Each field of S3's responses that lmi reads, removed or emptied in transit: an explained error, never a
bug of lmi."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lmi_deploy.aws.response_fields import FIELDS
from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.errors import IntegrityError, LmiError
from tests.support.proxy import Proxy, Reply, proxied
from tests.support.random_faults import PAGE
from tests.support.s3_servers import S3Server

BODY = bytes(5 << 20)


def _parts(store: S3Store) -> Any:
    upload = store.create_multipart("m")
    part = store.put_part(upload, 1, memoryview(BODY), crc32=crc32_of(BODY))
    return upload, part


def _list_parts(store: S3Store) -> Any:
    return store.parts(_parts(store)[0])


def _complete(store: S3Store) -> Any:
    upload, part = _parts(store)
    return store.complete(upload, [part], crc32=crc32_of(BODY), size=len(BODY))


USES: dict[str, Callable[[S3Store], Any]] = {
    "get": lambda store: store.get("k"),
    "read": lambda store: b"".join(store.read("k", start=1, length=2)),
    "head": lambda store: store.head("k"),
    "list": lambda store: list(store.list("")),
    "put": lambda store: store.put("new", b"x"),
    "put if absent": lambda store: store.put("absent", b"x", if_absent=True),
    "copy": lambda store: store.copy("k", "copied", size=3),
    "uploads": lambda store: store.uploads(""),
    "parts": _list_parts,
    "complete": _complete,
}


def _without(header: str) -> Callable[[Call, Reply], Reply]:
    def alter(call: Call, reply: Reply) -> Reply:
        kept = {name: value for name, value in reply.headers.items() if name.lower() != header}
        return Reply(reply.status, kept, reply.content)

    return alter


def _page(call: Call, reply: Reply) -> Reply:
    headers = {"Content-Type": "text/html", "Content-Length": str(len(PAGE))}
    return Reply(200, headers, PAGE)


def _empty(call: Call, reply: Reply) -> Reply:
    return Reply(200, {"Content-Length": "0"}, b"")


ALTERED: dict[str, Callable[[Call, Reply], Reply]] = {
    "no ETag": _without("etag"),
    "no Content-Length": _without("content-length"),
    "no Last-Modified": _without("last-modified"),
    "a login page": _page,
    "nothing": _empty,
}


@pytest.fixture
def proxy(moto: S3Server) -> Iterator[Proxy]:
    with proxied(moto.url) as running:
        yield running


def _failure(used: Callable[[], Any]) -> LmiError | None:
    try:
        used()
    except LmiError as error:
        return error
    return None


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("altered", ALTERED)
def test_successful_response_with_missing_fields_is_refused(
    moto: S3Server, bucket: str, proxy: Proxy, use: str, altered: str
) -> None:
    moto.make_bucket(bucket)
    store = moto.behind_proxy(proxy.url).store(bucket)
    store.put("k", b"abc")
    proxy.alter = ALTERED[altered]
    error = _failure(lambda: USES[use](store))
    if altered in ("a login page", "nothing"):
        assert error is not None, "somebody else's answer was taken for S3's"
        assert isinstance(error, IntegrityError) or "which is not a response of AWS" in error.message
        assert isinstance(error, IntegrityError) or "login page" in error.hint
    if error is not None:
        assert error.exit_code in (1, 6), error.message
        assert error.hint


def test_response_with_a_lost_field_is_requested_again(moto: S3Server, bucket: str, proxy: Proxy) -> None:
    moto.make_bucket(bucket)
    store = moto.behind_proxy(proxy.url).store(bucket)
    lost = iter([_without("etag")])

    def once(call: Call, reply: Reply) -> Reply:
        alter = next(lost, None)
        return alter(call, reply) if alter else reply

    proxy.alter = once
    created = store.put("k", b"abc", if_absent=True)
    found = store.head("k")
    assert found is not None
    assert created.etag == found.etag


def test_every_checked_field_exists_in_botocore() -> None:
    import botocore.session

    session = botocore.session.get_session()
    for service, calls in FIELDS.items():
        client = session.create_client(
            service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        for call, fields in calls.items():
            shape = client.meta.service_model.operation_model(
                client.meta.method_to_api_mapping[call]
            ).output_shape
            for path in fields:
                node = shape
                for step in path.split("."):
                    node = node.members[step.removesuffix("[]")]
                    node = node.member if step.endswith("[]") else node
