"""Access to models: every error has its own message with the URL to act on; unsafe file names are refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.emulator.faults.rules import Answer, FaultRule
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound
from tests.support.hub import HubModels, HubState, LocalHub, serve_hub
from tests.support.hub_client import FILES, HubClient, contents


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalHub]:
    state = HubState(HubModels(), tokens=frozenset({"good", "other"}))
    with serve_hub({"org/m": FILES, "org/gated": FILES, "org/private": FILES}, state=state) as hub:
        hub.settings("org/gated").gated = True
        hub.settings("org/gated").accepted = ("good",)
        hub.settings("org/private").private = True
        hub.settings("org/private").readers = ("good",)
        yield hub


REFUSALS = {
    "gated, no token": (
        ("org/gated", "main", ""),
        AccessError,
        "org/gated: gated, and there is no token",
        "accept its conditions at {hub}/org/gated, then `hf auth login`, or set HF_TOKEN",
    ),
    "gated, not let in": (
        ("org/gated", "main", "other"),
        AccessError,
        "org/gated: gated, and the account of the token in HF_TOKEN has no access",
        "at {hub}/org/gated",
    ),
    "missing or private, no token": (
        ("org/none", "main", ""),
        NotFound,
        "org/none: no such model, or a private one, and there is no token (401)",
        "check the spelling at {hub}/org/none",
    ),
    "private, no token": (
        ("org/private", "main", ""),
        NotFound,
        "org/private: no such model, or a private one, and there is no token (401)",
        "for a private model `hf auth login`, or set HF_TOKEN",
    ),
    "private, other token": (
        ("org/private", "main", "other"),
        NotFound,
        "org/private: no such model, or the token in HF_TOKEN has no access",
        "{hub}/org/private",
    ),
    "bad token": (
        ("org/m", "main", "hf_b4d"),
        AccessError,
        "{hub} refuses the token in HF_TOKEN: Invalid credentials in Authorization header",
        "create a new token at {hub}/settings/tokens",
    ),
    "bad token, gated": (
        ("org/gated", "main", "hf_b4d"),
        AccessError,
        "{hub} refuses the token in HF_TOKEN",
        "{hub}/settings/tokens",
    ),
    "no such revision": (
        ("org/m", "v1.0", "good"),
        NotFound,
        "org/m: no such revision: 'v1.0'",
        "{hub}/org/m/tree/main",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_each_denied_access_has_its_message_and_url(case: str, guarded: LocalHub, tmp_path: Path) -> None:
    (model_id, revision, token), kind, message, hint = REFUSALS[case]
    guarded.log.clear()
    client = HubClient(guarded, tmp_path, {"HF_TOKEN": token})
    with pytest.raises(kind) as caught:
        client.fetch(client.listed(model_id, revision))
    assert isinstance(caught.value, LmiError)
    assert message.format(hub=guarded.url) in caught.value.message
    assert hint.format(hub=guarded.url) in caught.value.hint
    assert caught.value.exit_code == 1
    assert client.clock.slept == 0
    assert not list(tmp_path.rglob("*.incomplete"))
    assert client.final_names() <= {"empty", oid_of(b"", "git-sha1")}
    assert token == "" or token not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("model_id", ["org/gated", "org/private"])
def test_valid_token_is_read_from_variable_and_file(model_id: str, guarded: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("good\n")
    for environ in (
        {"HF_TOKEN": "good"},
        {},
        {"HF_HOME": "/nowhere", "HF_TOKEN_PATH": str(tmp_path / "token")},
    ):
        client = HubClient(guarded, tmp_path, environ)
        listing = client.listed(model_id)
        assert client.adapter.read(listing, "config.json") == FILES["config.json"]
        assert listing.gated is (model_id == "org/gated")


def test_refused_token_from_a_file_is_named_by_its_path(guarded: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_b4d")
    with pytest.raises(AccessError, match=f"refuses the token in {tmp_path}/token"):
        HubClient(guarded, tmp_path).listed()


def test_other_errors_show_the_message_of_the_hub(client: HubClient, hub: LocalHub) -> None:
    hub.fail(
        FaultRule(do=Answer(403, {"X-Error-Message": "Access to this resource is disabled."}), path="^/api/")
    )
    with pytest.raises(AccessError, match="org/m: the Hub answered 403: Access to this resource is disabled"):
        client.listed()
    hub.fail(FaultRule(do=Answer(400, {}, '{"error": "odd\\n request"}'), path="^/api/"))
    with pytest.raises(AccessError, match="org/m: the Hub answered 400: odd request"):
        client.listed()


def test_file_deleted_on_the_hub_is_not_found(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    missing = FileEntry(path="gone.json", size=3, oid=oid_of(b"abc", "git-sha1"), kind="git-sha1")
    with pytest.raises(NotFound, match=r"org/m: no file 'gone.json' at revision [0-9a-f]{40}"):
        list(client.adapter.fetch(listing, [*listing.files, missing], key="k"))
    assert not list(client.home.rglob("gone.json"))


@pytest.mark.parametrize(
    "path", ["../../.ssh/authorized_keys", "/etc/cron.d/x", "a/../../b", "a\\b", "a//b", "x" * 300]
)
def test_unsafe_file_names_are_refused_before_anything_is_written(path: str, tmp_path: Path) -> None:
    with serve_hub({"org/m": {"config.json": b"{}", path: b"evil"}}) as hub:
        client = HubClient(hub, tmp_path)
        with pytest.raises(IntegrityError, match="org/m: 1 of its file names are unsafe: "):
            client.listed()
        assert hub.log.bodies() == []
    assert list(tmp_path.iterdir()) == []


def test_file_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    with serve_hub({"org/m": {"README.md": b"1", "readme.md": b"2"}}) as hub:
        client = HubClient(hub, tmp_path)
        listing = client.listed()
        with pytest.raises(IntegrityError, match=r"README.md and readme.md would be the same file"):
            client.fetch(listing)
        list(client.adapter.fetch(listing, listing.files[:1], key="k"))
        assert [p.name for p in tmp_path.rglob("*.md")] == ["README.md"]
    assert contents(tmp_path / "hub/models--org--m/blobs") != {}
