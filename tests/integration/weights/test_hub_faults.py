"""Faults of a Hub and its network during a push: right bytes, or an error and no weights."""

from contextlib import suppress

import pytest
from huggingface_hub import close_session
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.weights import weights_prefix
from lmi_deploy.emulator.faults.rule_files import parse_rules
from lmi_deploy.emulator.faults.rules import Action, Answer, Cut, Drop, FaultRule, Flip, IgnoreRange, Lose
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound, TransferFailed
from tests.integration.weights.conftest import FILES
from tests.support import hub_faults
from tests.support.fake_store import FakeStore
from tests.support.hub import LocalHub
from tests.support.hub_client import HubClient
from tests.support.hub_faults import LARGE, SMALL
from tests.support.hypothesis_settings import examples
from tests.support.push import push_context, pushed

pytestmark = pytest.mark.landing

PART = 8 << 20
ONE_FAULT = {
    **hub_faults.ONE_FAULT,
    "503 three times": '"times": 3, "do": {"answer": {"status": 503}}',
    "rate limit spent": '"do": {"answer": {"status": 429, "headers": {"RateLimit": "\\"resolvers\\";r=0;t=40"}}}',
    "flipped later byte": '"do": {"flip": {"at": 319}}',
}
RANGED = {
    **hub_faults.WHEN_RANGED,
    "expired address": '"do": {"answer": {"status": 403, "body": "<Error>Request has expired</Error>"}}',
    "cut far inside": '"do": {"cut": {"after": 3000000}}',
}


def stored_objects(store: FakeStore) -> dict[str, bytes]:
    return {key.split("/", 3)[3]: body for key, body in store.objects.items() if key.startswith("weights/")}


def assert_right(client: HubClient) -> None:
    store = FakeStore()
    pushed(client.listed(), push_context(client.adapter, store))
    assert stored_objects(store) == FILES
    assert store.uploads("") == ()


@pytest.mark.parametrize("path", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("fault", ONE_FAULT)
def test_files_arrive_intact_despite_one_fault(
    fault: str, path: str, hub: LocalHub, client: HubClient
) -> None:
    hub.fail(*parse_rules(f'{{"path": "{path}", {ONE_FAULT[fault]}}}'))
    assert_right(client)
    assert all(tally.fired for tally in hub.state.faults.tallies())


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("fault", RANGED)
def test_part_with_the_wrong_range_is_not_accepted(
    fault: str, nth: int, hub: LocalHub, client: HubClient
) -> None:
    hub.fail(*parse_rules(f'{{"path": "^/cdn/", "nth": {nth}, {RANGED[fault]}}}'))
    assert_right(client)
    assert all(tally.fired for tally in hub.state.faults.tallies())


def test_server_without_range_support_works(hub: LocalHub, client: HubClient) -> None:
    hub.fail(FaultRule(do=IgnoreRange(), path="^/cdn/", times=None))
    assert_right(client)


def test_interrupted_read_resumes_where_it_stopped(hub: LocalHub, client: HubClient) -> None:
    hub.fail(FaultRule(do=Cut(3_000_000), path="^/cdn/"))
    assert_right(client)
    requests = [request.range or "" for request in hub.log.all() if request.path.startswith("/cdn/")]
    starts = {int(text.removeprefix("bytes=").partition("-")[0]) for text in requests}
    assert len(requests) == 3
    assert starts - {0, PART} < {3_000_000, PART + 3_000_000}
    sent = sum(getattr(request.response, "sent", 0) for request in hub.log.all())
    assert sent == sum(map(len, FILES.values()))


def test_one_signed_url_is_used_until_it_expires(hub: LocalHub, client: HubClient) -> None:
    assert_right(client)
    resolved = [request for request in hub.log.all() if request.path.endswith("/model.safetensors")]
    assert 1 <= len(resolved) <= 2
    hub.log.clear()
    hub.fail(FaultRule(do=Answer(403), path="^/cdn/"))
    assert_right(client)
    assert [request for request in hub.log.all() if request.path.endswith("/model.safetensors")]


BREAKS = st.sampled_from(
    [Drop(), Drop(reset=True), Lose(), Answer(503), IgnoreRange(), Answer(403), Answer(200)]
)
CUTS = st.builds(Cut, st.integers(0, 17 << 20), st.booleans())


@examples(12, shared_fixture=True)
@given(st.lists(BREAKS | CUTS | st.just(Flip(77)), max_size=4))
def test_any_sequence_of_faults_leaves_correct_files_or_no_manifest(
    hub: LocalHub, client: HubClient, row: list[Action]
) -> None:
    hub.state.faults.clear()
    hub.fail(*(FaultRule(do=action, path="^/cdn/") for action in row))
    store = FakeStore()
    with suppress(LmiError):
        pushed(client.listed(), push_context(client.adapter, store))
    if [key for key in store.objects if key.startswith("manifests/")]:
        assert stored_objects(store) == FILES
    else:
        assert stored_objects(store).items() <= FILES.items()


LASTING: dict[str, tuple[Action, type[LmiError]]] = {
    "flipped": (Flip(40), IntegrityError),
    "unavailable": (Answer(503), TransferFailed),
    "always cut": (Cut(0), TransferFailed),
    "not found": (Answer(404, {"X-Error-Code": "EntryNotFound"}), NotFound),
    "refused": (Answer(401, {"X-Error-Code": "GatedRepo"}), AccessError),
}


@pytest.mark.parametrize("fault", LASTING)
def test_permanent_fault_is_reported_and_leaves_no_weights(
    fault: str, hub: LocalHub, client: HubClient
) -> None:
    action, error = LASTING[fault]
    path = "/resolve/.*/model.safetensors" if error in (NotFound, AccessError) else "^/cdn/"
    hub.fail(FaultRule(do=action, path=path, times=None))
    store = FakeStore()
    listing = client.listed()
    with pytest.raises(error) as caught:
        pushed(listing, push_context(client.adapter, store))
    assert caught.value.hint
    assert "Signature" not in f"{caught.value.message}{caught.value.hint}{caught.value.details}"
    assert not [key for key in store.objects if key.startswith("manifests/")]
    assert "model.safetensors" not in stored_objects(store)


def test_cached_files_are_pushed_without_a_download(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    client.fetch(listing)
    hub.log.clear()
    store = FakeStore()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert hub.log.all() == []
    assert weights_prefix(manifest.name)
    assert stored_objects(store) == FILES


def test_proxy_setting_is_used(hub: LocalHub, client: HubClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy answers at this address: the failed connection shows that the setting is used."""
    listing = client.listed()
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    close_session()
    try:
        with pytest.raises(AccessError, match="cannot be reached"):
            pushed(listing, push_context(client.another(), FakeStore()))
    finally:
        close_session()
