"""Small requests to the Hub: rate limits, retries, invalid responses, corrupted reads."""

from pathlib import Path

import pytest

from lmi_deploy.emulator.faults.rule_files import parse_rules
from lmi_deploy.emulator.faults.rules import Answer, Cut, FaultRule, Flip
from lmi_deploy.errors import AccessError, IntegrityError, NotFound, TransferFailed
from lmi_deploy.sources.download_retry import retry_after
from tests.support.hub import HubModels, HubState, LocalHub, Quota, serve_hub
from tests.support.hub_client import FILES, SIZE, WEIGHTS, HubClient, contents

SMALL = "/resolve/.*config.json"


def test_rate_limit_wait_follows_the_headers(tmp_path: Path) -> None:
    state = HubState(HubModels())
    with serve_hub({"org/m": FILES}, state=state) as hub:
        client = HubClient(hub, tmp_path)
        state.clock = client.clock.timestamp
        state.quotas["resolvers"] = Quota("resolvers", limit=2, window=300, clock=client.clock.timestamp)
        folder, events = client.fetch(client.listed())
    assert contents(folder) == FILES
    assert 300 <= client.clock.slept < 320
    assert any(entry.status == 429 for entry in hub.log.all())
    assert len([entry for entry in hub.log.all() if entry.status == 429]) <= 8
    assert events[-1].done == events[-1].total == sum(map(len, FILES.values()))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({"RateLimit": '"resolvers";r=3;t=55', "Retry-After": "4"}, 4.0),
        ({"Retry-After": " 120 "}, 120.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_delay_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_listing_is_retried_and_then_fails(hub: LocalHub, client: HubClient) -> None:
    hub.fail(FaultRule(do=Answer(503), path="^/api/", times=3))
    assert client.listed().model_id == "org/m"
    hub.fail(FaultRule(do=Answer(503), path="^/api/", times=None))
    with pytest.raises(TransferFailed, match="org/m: the Hub answered 503, 4 times in a row"):
        client.listed()


def test_response_that_is_not_from_a_hub_is_reported(hub: LocalHub, client: HubClient) -> None:
    for body in ("<html>Please sign in</html>", "[]", '{"sha": "x", "siblings": []}', '{"siblings": [{}]}'):
        hub.fail(FaultRule(do=Answer(200, {}, body), path="^/api/"))
        with pytest.raises(AccessError, match="its response about org/m does not come from a Hub"):
            client.listed()


def test_pinned_commit_answered_with_another_one_is_refused(tmp_path: Path) -> None:
    pinned = "0123456789abcdef0123456789abcdef01234567"
    with serve_hub({"org/m": FILES}) as hub:
        client = HubClient(hub, tmp_path)
        commit = client.listed().commit
        assert client.listed(revision=commit).commit == commit
        hub.settings("org/m").tags = {pinned: "main", pinned.upper(): "main"}
        for revision in (pinned, pinned.upper()):
            with pytest.raises(IntegrityError, match=f"commit {pinned}.*with commit {commit}"):
                client.listed(revision=revision)


def test_small_reads_are_retried_and_verified(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    hub.fail(FaultRule(do=Cut(3), path=SMALL), FaultRule(do=Flip(3), path=SMALL, nth=2))
    assert client.adapter.read(listing, "config.json") == FILES["config.json"]
    hub.fail(*parse_rules('{"path": "^/cdn/", "do": "ignore_range"}'))
    assert client.adapter.read(listing, "model.safetensors", start=300, length=8) == WEIGHTS[300:308]
    assert client.adapter.read(listing, "model.safetensors", start=SIZE - 2, length=8) == WEIGHTS[-2:]
    assert client.adapter.read(listing, "empty") == b""
    hub.fail(FaultRule(do=Flip(3), path=SMALL, times=None))
    with pytest.raises(
        IntegrityError, match=r"org/m: config.json: its git-sha1 is [0-9a-f]{40}, but the Hub says"
    ):
        client.adapter.read(listing, "config.json")
    with pytest.raises(NotFound, match="no file 'nothing'"):
        client.adapter.read(listing, "nothing")
