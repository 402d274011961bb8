"""Faults of S3 and its network during a push: right bytes at the end, or an error and no weights."""

import pytest

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.emulator.faults import rules as do
from lmi_deploy.emulator.faults.rules import Action, Call, FaultRule
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, TransferFailed
from lmi_deploy.weights.weights_maintenance import verify
from tests.integration.weights.conftest import FILES
from tests.integration.weights.test_push import stored_objects
from tests.support.frozen_clock import FrozenClock
from tests.support.generators import result_of
from tests.support.hub_client import HubClient
from tests.support.proxy import Proxy
from tests.support.push import push_context, pushed
from tests.support.s3_servers import S3Server


@pytest.fixture
def store(versity: S3Server, proxy: Proxy, bucket: str) -> S3Store:
    """Through the proxy. No fault here is a reply that never comes, so the time limit only has to be long.

    A busy machine once took more than a second to begin an upload: the retry began another, which was left over.
    """
    versity.make_bucket(bucket)
    settings = S3Settings(attempts=1, stall_seconds=60.0)
    return versity.behind_proxy(proxy.url).store(bucket, clock=FrozenClock(), settings=settings)


def s3_error(code: str, status: int = 400, message: str = "no") -> do.Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return do.Answer(status, {"Content-Type": "application/xml"}, body)


STEPS = {
    "a part": ("PUT", "partNumber=2"),
    "a small file": ("PUT", "config.json"),
    "beginning": ("POST", r"\?uploads"),
    "completing": ("POST", "uploadId="),
    "the manifest": ("PUT", "/manifests/"),
    "looking": ("GET", "/manifests/"),
}
PASSING: dict[str, Action] = {
    "SlowDown": s3_error("SlowDown", 503),
    "InternalError": s3_error("InternalError", 500),
    "drop": do.Drop(),
    "reset": do.Drop(reset=True),
    "lost reply": do.Lose(),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", PASSING)
def test_transient_fault_at_any_step_is_retried(
    fault: str, step: str, client: HubClient, store: S3Store, proxy: Proxy
) -> None:
    method, path = STEPS[step]
    proxy.fail(FaultRule(do=PASSING[fault], method=method, path=path))
    manifest, _ = pushed(client.listed(), push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES
    assert result_of(verify(store, manifest, key="v", deep=True)) == ()
    assert all(tally.fired for tally in proxy.rules.tallies())


def test_complete_that_answers_200_with_an_error_is_retried(
    client: HubClient, store: S3Store, proxy: Proxy
) -> None:
    inside = do.Answer(
        200, {}, "<?xml version='1.0'?><Error><Code>InternalError</Code><Message>x</Message></Error>"
    )
    proxy.fail(FaultRule(do=inside, method="POST", path="uploadId="))
    manifest, _ = pushed(client.listed(), push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES


def test_bit_flipped_during_upload_is_sent_again(client: HubClient, store: S3Store, proxy: Proxy) -> None:
    left = [1]

    def flip(call: Call, body: bytes) -> bytes:
        if "partNumber=1" not in call.path or not left:
            return body
        left.pop()
        return body[:99] + bytes([body[99] ^ 4]) + body[100:]

    proxy.tamper = flip
    manifest, _ = pushed(client.listed(), push_context(client.adapter, store))
    assert not left
    assert stored_objects(store, manifest.name) == FILES


LASTING: dict[str, tuple[Action, type[LmiError]]] = {
    "SlowDown": (s3_error("SlowDown", 503), TransferFailed),
    "AccessDenied": (s3_error("AccessDenied", 403), AccessError),
    "BadDigest": (s3_error("BadDigest", 400), IntegrityError),
    "drop": (do.Drop(), TransferFailed),
}


@pytest.mark.parametrize("step", ["a part", "a small file", "completing", "the manifest"])
@pytest.mark.parametrize("fault", LASTING)
def test_permanent_fault_is_reported_and_the_next_push_continues(
    fault: str, step: str, client: HubClient, store: S3Store, proxy: Proxy
) -> None:
    action, error = LASTING[fault]
    method, path = STEPS[step]
    proxy.fail(FaultRule(do=action, method=method, path=path, times=None))
    listing = client.listed()
    with pytest.raises((error, AccessError, TransferFailed)) as caught:
        pushed(listing, push_context(client.adapter, store))
    assert caught.value.hint
    assert not list(store.list("manifests/"))
    proxy.clear()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES
    assert store.uploads("") == ()


def test_uploaded_part_is_not_sent_again(client: HubClient, store: S3Store, proxy: Proxy) -> None:
    proxy.fail(
        FaultRule(do=s3_error("SlowDown", 503), method="PUT", path="partNumber=2", times=None, delay=0.2)
    )
    listing = client.listed()
    with pytest.raises(TransferFailed):
        pushed(listing, push_context(client.adapter, store))
    proxy.clear()
    pushed(listing, push_context(client.adapter, store))
    assert [
        passed.path.partition("partNumber=")[2][:1] for passed in proxy.requests("PUT", "partNumber")
    ] == ["2"]
