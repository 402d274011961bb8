"""S3 with network faults and errors: right bytes at the end, or the right error, and no partial object."""

import os

import pytest

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.emulator.faults import rules as do
from lmi_deploy.emulator.faults.rules import Action, Call, FaultRule
from lmi_deploy.errors import AccessError, Conflict, IntegrityError, LmiError, NotFound, TransferFailed
from lmi_deploy.ports.object_store import MultipartUpload, Part
from tests.support.frozen_clock import FrozenClock
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server

PARTS = [os.urandom(5 << 20), os.urandom(77_777)]
WHOLE = b"".join(PARTS)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def store(versity: S3Server, proxy: Proxy, bucket: str, clock: FrozenClock, notices: list[str]) -> S3Store:
    versity.make_bucket(bucket)
    settings = S3Settings(attempts=1, stall_seconds=0.5)
    return versity.behind_proxy(proxy.url).store(
        bucket, clock=clock, settings=settings, notify=notices.append
    )


def s3_error(code: str, status: int = 400, message: str = "no", **headers: str) -> do.Answer:
    """An error response of S3."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return do.Answer(status, {"Content-Type": "application/xml", **headers}, body)


def sent(store: S3Store, key: str = "w/model.safetensors") -> tuple[MultipartUpload, list[Part]]:
    upload = store.create_multipart(key)
    return upload, [put_part(store, upload, number, chunk) for number, chunk in enumerate(PARTS, 1)]


def put_part(store: S3Store, upload: MultipartUpload, number: int, content: bytes) -> Part:
    return store.put_part(upload, number, memoryview(content), crc32=crc32_of(content))


def completed(store: S3Store, upload: MultipartUpload, parts: list[Part]) -> None:
    created = store.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert (created.size, created.checksum) == (len(WHOLE), crc32_of(WHOLE))


PASSING: dict[str, Action] = {
    "slow-down": s3_error("SlowDown", 503),
    "internal": s3_error("InternalError", 500),
    "bad-gateway": do.Answer(502),
    "request-timeout": s3_error("RequestTimeout", 400),
    "incomplete-body": s3_error("IncompleteBody", 400),
    "throttled": do.Answer(429),
    "drop": do.Drop(),
    "reset": do.Drop(reset=True),
    "lost-reply": do.Lose(),
    "carried-out-twice": do.Repeat(),
    "silence": do.Hang(1.0),
}


@pytest.mark.parametrize("fault", PASSING)
def test_transient_fault_is_retried_at_every_step_of_an_upload(
    store: S3Store, proxy: Proxy, notices: list[str], fault: str
) -> None:
    for method, part in (
        ("POST", "uploads"),
        ("PUT", "partNumber=1"),
        ("PUT", "partNumber=2"),
        ("POST", "uploadId="),
    ):
        proxy.fail(FaultRule(do=PASSING[fault], method=method, path=part))
    upload, parts = sent(store)
    assert store.head(upload.key) is None
    completed(store, upload, parts)
    assert b"".join(store.read(upload.key)) == WHOLE
    assert len(notices) >= 3 or fault == "carried-out-twice"


@pytest.mark.parametrize("reset", [True, False])
def test_cut_off_refusal_is_asked_for_again(store: S3Store, proxy: Proxy, *, reset: bool) -> None:
    proxy.fail(FaultRule(do=do.Cut(after=7, reset=reset), method="GET", times=2))
    assert store.get("absent") is None


@pytest.mark.parametrize("fault", PASSING)
def test_transient_fault_is_retried_for_small_objects(store: S3Store, proxy: Proxy, fault: str) -> None:
    proxy.fail(FaultRule(do=PASSING[fault], method="PUT"), FaultRule(do=PASSING[fault], method="GET"))
    if PASSING[fault] not in (PASSING["request-timeout"], PASSING["incomplete-body"]):  # HEAD has no body
        proxy.fail(FaultRule(do=PASSING[fault], method="HEAD"))
    proxy.fail(FaultRule(do=PASSING[fault], method="POST", path="delete"))
    store.put("k", b"small")
    got = store.get("k")
    assert got is not None
    assert got[0] == b"small"
    assert store.head("k") is not None
    assert [found.key for found in store.list("")] == ["k"]
    store.delete(["k"])
    assert store.head("k") is None


def test_permanent_fault_ends_after_bounded_retries(store: S3Store, proxy: Proxy, clock: FrozenClock) -> None:
    proxy.fail(FaultRule(do=s3_error("SlowDown", 503, "Please reduce your request rate."), times=None))
    with pytest.raises(TransferFailed, match="SlowDown: Please reduce") as caught:
        store.put("k", b"x")
    assert caught.value.exit_code == 1
    assert "completed work is kept" in caught.value.hint
    assert len(proxy.log) == 5
    assert 3 < clock.slept < 60


def test_complete_that_answers_200_with_an_error_is_retried(store: S3Store, proxy: Proxy) -> None:
    upload, parts = sent(store)
    error = s3_error("InternalError", 200, "We encountered an internal error.")
    proxy.fail(FaultRule(do=error, method="POST", path="uploadId=", times=None))
    with pytest.raises(TransferFailed, match="InternalError"):
        store.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert store.head(upload.key) is None
    proxy.rules.clear()
    proxy.fail(FaultRule(do=error, method="POST", path="uploadId="))
    completed(store, upload, parts)


def test_complete_with_lost_replies_is_resolved_by_a_head_request(store: S3Store, proxy: Proxy) -> None:
    upload, parts = sent(store)
    proxy.fail(FaultRule(do=do.Lose(), method="POST", path="uploadId=", times=None))
    completed(store, upload, parts)


def test_older_object_of_the_same_name_is_not_taken_for_the_upload(store: S3Store, proxy: Proxy) -> None:
    upload, parts = sent(store)
    store.put(upload.key, b"an older one")
    proxy.fail(FaultRule(do=do.Drop(), method="POST", path="uploadId=", times=None))
    with pytest.raises(TransferFailed):
        store.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    proxy.rules.clear()
    completed(store, upload, parts)
    assert b"".join(store.read(upload.key)) == WHOLE


@pytest.mark.parametrize("size", [1000, len(PARTS[0])])
def test_byte_flipped_during_upload_is_sent_again(store: S3Store, proxy: Proxy, size: int) -> None:
    upload = store.create_multipart("k")
    content = PARTS[0][:size]
    flipped = _flip_once(proxy, "partNumber")
    part = put_part(store, upload, 1, content)
    assert flipped == [1]
    store.complete(upload, [part], crc32=crc32_of(content), size=size)
    assert b"".join(store.read("k")) == content


def test_bytes_that_always_flip_end_with_6_and_no_object(store: S3Store, proxy: Proxy) -> None:
    proxy.tamper = lambda call, body: body[:-1] + bytes([body[-1] ^ 1]) if body else body
    with pytest.raises(IntegrityError) as caught:
        store.put("k", b"some bytes")
    assert caught.value.exit_code == 6
    assert "completed work is kept" in caught.value.hint
    proxy.tamper = None
    assert store.head("k") is None


def _flip_once(proxy: Proxy, part: str) -> list[int]:
    count: list[int] = []

    def tamper(call: Call, body: bytes) -> bytes:
        if part in call.path and not count:
            count.append(1)
            return body[:500] + bytes([body[500] ^ 4]) + body[501:]
        return body

    proxy.tamper = tamper
    return count


READ_FAULTS: dict[str, Action] = {
    "cut-at-once": do.Cut(after=0),
    "cut": do.Cut(after=3_000_001),
    "reset": do.Cut(after=3_000_001, reset=True),
    "stall": do.Stall(after=3_000_001, seconds=1.0),
    "slow-down": s3_error("SlowDown", 503),
    "drop": do.Drop(),
}


@pytest.mark.parametrize("fault", READ_FAULTS)
@pytest.mark.parametrize("start", [0, 1_000])
def test_interrupted_read_resumes_where_it_stopped(
    store: S3Store, proxy: Proxy, fault: str, start: int
) -> None:
    stored = store.put("k", WHOLE)
    proxy.fail(FaultRule(do=READ_FAULTS[fault], method="GET", times=2))
    assert b"".join(store.read("k", start=start, etag=stored.etag)) == WHOLE[start:]
    requests = [
        int((passed.headers.get("Range") or "bytes=0-")[6:].split("-")[0]) for passed in proxy.requests("GET")
    ]
    assert requests == sorted(requests)
    if fault in ("cut", "stall"):  # a reset also loses the bytes in transit
        assert requests[-1] > start


@pytest.mark.parametrize("fault", [do.ShiftRange(by=7), do.IgnoreRange()])
def test_wrong_range_is_not_accepted(moto: S3Server, bucket: str, fault: Action) -> None:
    # moto, because it accepts a signed header that has changed.
    moto.make_bucket(bucket)
    with proxied(moto.url) as proxy:
        store = moto.behind_proxy(proxy.url).store(bucket)
        store.put("k", WHOLE)
        proxy.fail(FaultRule(do=fault, method="GET", times=2))
        assert b"".join(store.read("k", start=1000, length=3_000_000)) == WHOLE[1000:3_001_000]
        proxy.fail(FaultRule(do=fault, method="GET", times=None))
        with pytest.raises(TransferFailed, match="another range"):
            list(store.read("k", start=1000))


def test_read_of_a_replaced_object_is_a_conflict(store: S3Store, proxy: Proxy) -> None:
    store.put("k", WHOLE)
    proxy.fail(FaultRule(do=do.Cut(after=3_000_000), method="GET"))
    chunks = store.read("k")
    next(chunks)
    store.put("k", os.urandom(len(WHOLE)))
    with pytest.raises(Conflict):
        list(chunks)


def test_read_that_always_breaks_fails(store: S3Store, proxy: Proxy) -> None:
    store.put("k", WHOLE)
    proxy.fail(FaultRule(do=do.Cut(after=10), method="GET", times=None))
    with pytest.raises(TransferFailed, match="broke 5 times") as caught:
        list(store.read("k"))
    assert caught.value.hint


def test_byte_flipped_during_download_is_retried_or_reported(store: S3Store, proxy: Proxy) -> None:
    store.put("small", b"x" * 1000)
    store.put("large", WHOLE)
    proxy.fail(FaultRule(do=do.Flip(at=10), method="GET", path="small"))
    assert b"".join(store.read("small")) == b"x" * 1000
    proxy.fail(FaultRule(do=do.Flip(at=10), method="GET", path="small", times=2))
    with pytest.raises(IntegrityError):
        store.get("small")
    proxy.fail(FaultRule(do=do.Flip(at=10), method="GET", path="large"))
    with pytest.raises(IntegrityError, match="CRC32") as caught:
        list(store.read("large"))
    assert caught.value.exit_code == 6
    assert caught.value.hint


def test_lost_reply_to_a_conditional_write_is_no_conflict(store: S3Store, proxy: Proxy) -> None:
    proxy.fail(FaultRule(do=do.Lose(), method="PUT"))
    first = store.put("lock", b"one", if_absent=True)
    proxy.fail(FaultRule(do=do.Lose(), method="PUT"))
    second = store.put("lock", b"two", if_etag=first.etag)
    assert second.etag != first.etag
    proxy.fail(FaultRule(do=do.Lose(), method="DELETE"))
    store.remove("lock", if_etag=second.etag)
    assert store.head("lock") is None


def test_foreign_write_after_a_lost_request_is_a_conflict(
    store: S3Store, proxy: Proxy, versity: S3Server
) -> None:
    proxy.fail(FaultRule(do=do.Drop(), method="PUT"))
    versity.store(store.bucket).put("lock", b"theirs")
    with pytest.raises(Conflict):
        store.put("lock", b"ours", if_absent=True)


def test_conditional_request_conflict_is_retried(store: S3Store, proxy: Proxy) -> None:
    proxy.fail(FaultRule(do=s3_error("ConditionalRequestConflict", 409), method="PUT", times=2))
    store.put("k", b"x", if_absent=True)
    proxy.fail(FaultRule(do=s3_error("ConditionalRequestConflict", 409), method="PUT", times=None))
    with pytest.raises(Conflict):
        store.put("k2", b"x", if_absent=True)


EXPLAINED: list[tuple[do.Answer, type[LmiError], str, str]] = [
    (
        s3_error("ExpiredToken"),
        AccessError,
        "they have expired",
        "run the same command again: completed work is kept",
    ),
    (s3_error("InvalidAccessKeyId", 403), AccessError, "AWS does not know the access key", "AWS_PROFILE"),
    (s3_error("SignatureDoesNotMatch", 403), AccessError, "secret key does not belong", "AWS_PROFILE"),
    (
        s3_error("PermanentRedirect", 301, **{"x-amz-bucket-region": "eu-west-1"}),
        AccessError,
        r"the bucket is in eu-west-1, but the request went to us-east-1 \(http://127",
        "endpoint.region",
    ),
    (
        do.Answer(
            400,
            {"Content-Type": "application/xml"},
            "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong</Message>"
            "<Region>eu-central-1</Region></Error>",
        ),
        AccessError,
        "the bucket is in eu-central-1",
        "eu-central-1",
    ),
    (s3_error("NoSuchBucket", 404), NotFound, "no such bucket", "omit the bucket"),
    (
        s3_error(
            "AccessDenied",
            403,
            "User: arn:aws:iam::111122223333:user/ann is not authorized to perform: kms:GenerateDataKey on resource: "
            "arn:aws:kms:us-east-1:111122223333:key/k because no identity-based policy allows it",
        ),
        AccessError,
        "arn:aws:iam::111122223333:user/ann may not kms:GenerateDataKey on arn:aws:kms:us-east-1:111122223333:key/k",
        "kms:GenerateDataKey",
    ),
    (
        s3_error("AccessDenied", 403, "Access Denied"),
        AccessError,
        r"these credentials may not s3:PutObject on arn:aws:s3:::bucket-.*/k, or s3://bucket-.* does not belong to "
        "account 111122223333",
        "s3:PutObject",
    ),
]


@pytest.mark.parametrize(("response", "kind", "why", "hint"), EXPLAINED, ids=range(len(EXPLAINED)))
def test_each_refusal_is_explained_with_a_hint(
    store: S3Store, proxy: Proxy, response: do.Answer, kind: type[LmiError], why: str, hint: str
) -> None:
    proxy.fail(FaultRule(do=response, method="PUT", times=None))
    with pytest.raises(kind, match=why) as caught:
        store.put("k", b"x")
    assert hint in caught.value.hint
    proxy.rules.clear()
    assert store.head("k") is None


def test_head_that_is_redirected_or_forbidden_is_explained(store: S3Store, proxy: Proxy) -> None:
    proxy.fail(FaultRule(do=do.Answer(301, {"x-amz-bucket-region": "eu-west-1"}), method="HEAD"))
    with pytest.raises(AccessError, match="the bucket is in eu-west-1"):
        store.head("k")
    proxy.fail(FaultRule(do=do.Answer(400, {"x-amz-bucket-region": "eu-west-1"}), method="HEAD"))
    with pytest.raises(AccessError, match="the bucket is in eu-west-1"):
        store.head("k")
    assert len(proxy.requests("HEAD")) == 2
    proxy.fail(FaultRule(do=do.Answer(403, {"Date": "Thu, 01 Jan 2026 00:00:09 GMT"}), method="HEAD"))
    with pytest.raises(AccessError, match="an absent object also looks like this"):
        store.head("k")
    proxy.fail(FaultRule(do=do.Answer(400), method="HEAD", times=2))
    with pytest.raises(AccessError, match=r"without a reason \(400\), as it does with expired") as caught:
        store.head("k")
    assert "log in again" in caught.value.hint
    assert len(proxy.requests("HEAD")) == 5


def test_missing_bucket_is_not_a_missing_object(versity: S3Server) -> None:
    nowhere = versity.store("bucket-nowhere")
    with pytest.raises(NotFound, match="no such bucket"):
        nowhere.head("k")
    with pytest.raises(NotFound, match="no such bucket"):
        nowhere.get("k")
    with pytest.raises(NotFound, match="no such bucket"):
        list(nowhere.list(""))


def test_foreign_bucket_receives_no_request_body(versity: S3Server, proxy: Proxy, bucket: str) -> None:
    versity.make_bucket(bucket)
    sniped = versity.behind_proxy(proxy.url).store(bucket, owner="999988887777")
    for attempt in (
        lambda: sniped.put("k", b"x"),
        lambda: sniped.create_multipart("k"),
        lambda: sniped.get("k"),
    ):
        with pytest.raises(AccessError, match="does not belong to account 999988887777"):
            attempt()
    assert list(versity.store(bucket).list("")) == []


COPIES = S3Settings(attempts=1, copy_part_size=5 << 20)


def test_large_copy_retries_its_parts(moto: S3Server, bucket: str) -> None:
    moto.make_bucket(bucket)
    with proxied(moto.url) as proxy:
        store, body = moto.behind_proxy(proxy.url).store(bucket, settings=COPIES), os.urandom(17 << 20)
        source = store.put("from", body)
        proxy.fail(FaultRule(do=s3_error("SlowDown", 503), method="PUT", path="partNumber=2"))
        proxy.fail(FaultRule(do=do.Lose(), method="PUT", path="partNumber=3"))
        copied = store.copy("from", "to", size=len(body), etag=source.etag)
        assert (copied.size, copied.checksum) == (len(body), crc32_of(body))
        assert b"".join(store.read("to")) == body
        parts = [passed.headers for passed in proxy.requests("PUT", "partNumber")]
        assert len({headers["x-amz-copy-source-range"] for headers in parts}) == 4
        assert {headers["x-amz-source-expected-bucket-owner"] for headers in parts} == {moto.owner}


def test_failed_large_copy_leaves_no_object(versity: S3Server, proxy: Proxy, bucket: str) -> None:
    versity.make_bucket(bucket)
    store = versity.behind_proxy(proxy.url).store(bucket, settings=COPIES)
    store.put("from", os.urandom(11 << 20))
    # versitygw 1.8 gives each part the checksum of the whole source: detected like any wrong part.
    with pytest.raises(IntegrityError, match="but its copied parts have"):
        store.copy("from", "to", size=11 << 20)
    assert store.uploads("") == ()
    proxy.fail(FaultRule(do=s3_error("InternalError", 500), method="PUT", path="partNumber=2", times=None))
    with pytest.raises(TransferFailed):
        store.copy("from", "to", size=11 << 20)
    assert [upload.key for upload in store.uploads("")] == ["to"]
    assert store.head("to") is None


def test_every_request_states_the_expected_owner(store: S3Store, proxy: Proxy) -> None:
    upload, parts = sent(store)
    store.parts(upload)
    store.uploads("")
    completed(store, upload, parts)
    store.put("k", b"x")
    store.get("k")
    store.copy("k", "k2", size=1)
    store.abort(store.create_multipart("gone"))
    store.head("absent")
    list(store.list(""))
    list(store.read("k"))
    stored = store.head("k")
    assert stored is not None
    store.remove("k", if_etag=stored.etag)
    store.delete(["k2"])
    assert len(proxy.log) >= 16
    for passed in proxy.log:
        assert passed.headers.get("x-amz-expected-bucket-owner") == "111122223333", passed
        if "x-amz-copy-source" in passed.headers:
            assert passed.headers["x-amz-source-expected-bucket-owner"] == "111122223333"


def test_clock_skew_is_reported_and_corrected(store: S3Store, proxy: Proxy, notices: list[str]) -> None:
    skewed = s3_error("RequestTimeTooSkewed", 403, "too large", Date="Thu, 01 Jan 2026 03:00:00 GMT")
    proxy.fail(FaultRule(do=skewed))
    with pytest.raises(LmiError):
        # The server's clock is right, so it refuses what the wrong clock signed.
        store.put("k", b"x")
    assert notices == [
        "this machine's clock is 180 minutes behind of S3's: lmi signs requests with S3's time"
    ]
    shifted = proxy.log[1].headers["X-Amz-Date"]
    assert shifted != proxy.log[0].headers["X-Amz-Date"]
    proxy.clear()
    proxy.fail(FaultRule(do=s3_error("RequestTimeTooSkewed", 403, "x", Date="Thu, 01 Jan 2026 00:00:00 GMT")))
    store.put("k", b"x")
    assert "k" in {found.key for found in store.list("")}
    assert proxy.log[0].headers["X-Amz-Date"][:11] == shifted[:11]


def test_expired_token_is_refreshed_once(store: S3Store, proxy: Proxy, notices: list[str]) -> None:
    proxy.fail(FaultRule(do=s3_error("ExpiredToken")))
    store.put("k", b"x")
    assert notices == ["the AWS credentials have expired: refreshing them"]


def test_unreachable_endpoint_is_reported_with_its_address(versity: S3Server) -> None:
    nowhere = versity.behind_proxy("http://127.0.0.1:1").store("bucket-x")
    with pytest.raises(AccessError, match=r"http://127\.0\.0\.1:1: cannot be reached") as caught:
        nowhere.put("k", b"x")
    assert "AWS_ENDPOINT_URL" in caught.value.hint


def test_only_an_endpoint_that_answered_before_is_retried(
    versity: S3Server, bucket: str, clock: FrozenClock
) -> None:
    nowhere = versity.behind_proxy("http://127.0.0.1:1").store("bucket-x", clock=clock)
    with pytest.raises(AccessError):
        nowhere.put("k", b"x")
    assert clock.slept == 0
    versity.make_bucket(bucket)
    with proxied(versity.url) as proxy:
        store = versity.behind_proxy(proxy.url).store(bucket, clock=clock)
        store.put("k", b"x")
    with pytest.raises(AccessError, match="cannot be reached") as caught:
        store.put("k", b"x")
    assert clock.slept > 3
    assert "completed work is kept" in caught.value.hint


def test_messages_contain_no_secrets(
    store: S3Store, proxy: Proxy, versity: S3Server, notices: list[str]
) -> None:
    lines = []
    for response, *_ in EXPLAINED:
        proxy.fail(FaultRule(do=response, times=None))
        with pytest.raises(LmiError) as caught:
            store.put("k", b"x")
        lines += [caught.value.message, caught.value.hint, *notices]
        proxy.clear()
    assert versity.secret not in " ".join(lines)
    assert "Signature=" not in " ".join(lines)
