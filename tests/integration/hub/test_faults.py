"""The Hub adapter under every fault: right bytes at the end, or an error and no final file name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.emulator.faults.rule_files import parse_rules
from lmi_deploy.emulator.faults.rules import (
    Action,
    Answer,
    ChangedResponse,
    Cut,
    Drop,
    FaultRule,
    Flip,
    IgnoreRange,
    Lose,
)
from lmi_deploy.errors import IntegrityError, TransferFailed
from tests.support import hub_faults
from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import FILES, SIZE, WEIGHTS, HubClient, contents
from tests.support.hub_faults import LARGE, SMALL
from tests.support.hypothesis_settings import examples

ONE_FAULT = {
    **hub_faults.ONE_FAULT,
    "503 twice": '"times": 2, "do": {"answer": {"status": 503}}',
    "flipped last byte": '"do": {"flip": {"at": 319}}',
}
WHEN_RESUMED = {
    **hub_faults.WHEN_RANGED,
    "earlier range": '"do": {"shift_range": {"by": -7}}',
}


def faults(path: str, fault: str) -> tuple[FaultRule, ...]:
    if fault in ONE_FAULT:
        return parse_rules(f'{{"path": "{path}", {ONE_FAULT[fault]}}}')
    second = parse_rules(f'{{"path": "{path}", "nth": 2, {WHEN_RESUMED[fault]}}}')
    return (FaultRule(do=Cut(100), path=path), *second)


@pytest.mark.parametrize("path", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("fault", [*ONE_FAULT, *WHEN_RESUMED])
def test_files_arrive_intact_despite_one_fault(
    fault: str, path: str, hub: LocalHub, client: HubClient
) -> None:
    listing = client.listed()
    hub.fail(*faults(path, fault))
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    assert all(tally.fired for tally in hub.state.faults.tallies())
    hub.log.clear()
    client.fetch(listing)
    assert hub.log.all() == []


BREAKS = st.sampled_from(
    [Drop(), Drop(reset=True), Lose(), Answer(503), IgnoreRange(), Answer(403), Answer(200)]
)
CUTS = st.builds(Cut, st.integers(0, SIZE), st.booleans())


@examples(40, shared_fixture=True)
@given(st.lists(BREAKS | CUTS, max_size=4))
def test_files_arrive_intact_despite_any_sequence_of_faults(
    hub: LocalHub, tmp_path_factory: pytest.TempPathFactory, row: list[Action]
) -> None:
    hub.state.faults.clear()
    client = HubClient(hub, tmp_path_factory.mktemp("home"))
    listing = client.listed()
    hub.fail(*(FaultRule(do=do, path=LARGE, nth=number) for number, do in enumerate(row, 1)))
    damaging = [do for do in row if do == Answer(200)]
    try:
        folder, _ = client.fetch(listing)
    except IntegrityError:
        assert len(damaging) > 1
        assert oid_of(WEIGHTS, "sha256") not in client.final_names()
    else:
        assert contents(folder) == FILES


ONCE_MORE = {
    "the signed address has expired": FaultRule(do=Answer(403, {}, "<Code>AccessDenied</Code>"), path=LARGE),
    "the store does not know it yet": FaultRule(do=Answer(404), path=LARGE),
    "the Hub offers other content": FaultRule(
        do=ChangedResponse(headers={"X-Linked-Etag": f'"{"0" * 64}"'}), path="/resolve/.*safetensors"
    ),
}


@pytest.mark.parametrize("fault", ONCE_MORE)
def test_every_attempt_requests_a_new_signed_url(fault: str, hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    hub.fail(ONCE_MORE[fault])
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    resolved = [entry for entry in hub.log.all() if entry.path.endswith("/model.safetensors")]
    assert [entry.status for entry in resolved] == [302, 302]


def test_interrupted_download_resumes_where_it_stopped(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    hub.fail(FaultRule(do=Cut(SIZE - 5), path=LARGE))
    client.fetch(listing)
    sent = [
        (entry.range, entry.status, entry.sent) for entry in hub.log.all() if entry.path.startswith("/cdn/")
    ]
    assert sent == [(None, 200, SIZE - 5), (f"bytes={SIZE - 5}-{SIZE - 1}", 206, 5)]


def test_large_file_is_downloaded_in_ranges(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    client.adapter.segment = 300_000
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    assert [entry.sent for entry in hub.log.all() if entry.path.startswith("/cdn/")] == [300_000] * 3 + [
        SIZE - 900_000
    ]


LOST = {
    "always 503": (
        "^/cdn/",
        '{"answer": {"status": 503}}',
        "the Hub answered 503, 6 times in a row; 0 bytes are kept",
    ),
    "always reset": ("^/cdn/", '{"drop": {"reset": true}}', "6 times in a row"),
    "always cut": ("^/cdn/", '{"cut": {"after": 10}}', "6 times in a row; 60 bytes are kept"),
    # As long as it takes: on a busy machine a late client must not find the byte.
    "always stalls": ("^/cdn/", '{"stall": {"after": 0, "seconds": 60}}', "no byte for 0.4 s, 6 times"),
    "always expired": ("^/cdn/", '{"answer": {"status": 403}}', "the signed address answered 403, 6 times"),
    "asks for two hours": (
        "/resolve/.*safetensors",
        '{"answer": {"status": 429, "headers": {"Retry-After": "7200"}}}',
        "rate limit of the Hub (a token raises the limit: set HF_TOKEN), 1 times in a row",
    ),
}


@pytest.mark.parametrize("fault", LOST)
def test_failed_file_is_named_and_complete_files_are_kept(
    fault: str, hub: LocalHub, client: HubClient
) -> None:
    path, do, why = LOST[fault]
    listing = client.listed()
    hub.fail(*parse_rules(f'{{"path": "{path}", "times": null, "do": {do}}}'))
    with pytest.raises(TransferFailed) as caught:
        client.fetch(listing)
    assert caught.value.exit_code == 1
    assert caught.value.message.startswith("org/m: 1 of 4 files failed, model.safetensors: ")
    assert why in caught.value.message
    assert "run the same command again" in caught.value.hint
    assert caught.value.hint.endswith("; 3 files are complete and kept")
    assert oid_of(WEIGHTS, "sha256") not in client.final_names()
    hub.state.faults.clear()
    hub.log.clear()
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    assert {entry.path for entry in hub.log.bodies() if "/resolve/" in entry.path} == {
        f"/org/m/resolve/{listing.commit}/model.safetensors"
    }


DAMAGED = {
    "large": (LARGE, "model.safetensors", "sha256", WEIGHTS),
    "small": (SMALL, "config.json", "git-sha1", FILES["config.json"]),
}


@pytest.mark.parametrize("which", DAMAGED)
def test_corrupt_bytes_are_requested_twice_and_never_kept(
    which: str, hub: LocalHub, client: HubClient
) -> None:
    path, name, kind, content = DAMAGED[which]
    listing = client.listed()
    hub.fail(FaultRule(do=Flip(5), path=path, times=None))
    with pytest.raises(IntegrityError) as caught:
        client.fetch(listing)
    bad = content[:5] + bytes([content[5] ^ 1]) + content[6:]
    good_oid, bad_oid = (oid_of(each, kind) for each in (content, bad))  # type: ignore[arg-type]
    assert caught.value.exit_code == 6
    assert f"org/m: {name}: {kind} {bad_oid}, but the Hub says {good_oid}" in caught.value.message
    assert f"{hub.url}/org/m/blob/{listing.commit}/{name}" in caught.value.hint
    assert not {good_oid, bad_oid} & client.final_names()
    assert not list(client.home.rglob("*.incomplete"))
    assert len([entry for entry in hub.log.bodies() if entry.sent == len(content)]) == 2


def test_branch_that_moves_during_a_download_changes_nothing(tmp_path: Path) -> None:
    with serve_hub({"org/m": FILES}) as hub:
        client = HubClient(hub, tmp_path)
        listing = client.listed()
        hub.publish("org/m", {"config.json": b"new", "model.safetensors": b"new"})
        folder, _ = client.fetch(listing)
        assert contents(folder) == FILES
        assert folder.name == listing.commit != client.listed().commit


def test_hash_mismatch_is_the_error_and_other_failures_are_details(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    hub.fail(FaultRule(do=Flip(5), path=SMALL, times=None), FaultRule(do=Answer(503), path=LARGE, times=None))
    with pytest.raises(IntegrityError) as caught:
        client.fetch(listing)
    assert "config.json" in caught.value.message
    assert [detail.partition(":")[0] for detail in caught.value.details] == ["model.safetensors"]
