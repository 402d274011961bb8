"""The record of a deployment, in a folder or in a bucket: the same history by the same steps."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lmi_deploy.aws.s3.journal import BucketJournal, BucketRecords
from lmi_deploy.domain.plan import BuildEnvironment, FetchWeights, StopServer
from lmi_deploy.domain.record import KEPT_GENERATIONS, DeploymentRef, Record
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.state.state_dir import FolderJournal, StateFolder
from tests.support.factories import generation
from tests.support.fake_store import FakeStore
from tests.support.s3_servers import S3Server

REF = DeploymentRef(name="tiny", target="sagemaker")
STOP = StopServer(server="tiny-1")
FETCH = FetchWeights(model_id="org/m", commit="c", files=(), missing=3)
KEY = "deployments/tiny/record.json"


@dataclass(frozen=True)
class Kept:
    """A journal, and the way to read what it wrote."""

    journal: Journal
    read: Callable[[], Record | None]

    @property
    def record(self) -> Record:
        found = self.read()
        assert found is not None
        return found


@pytest.fixture(params=["folder", "fake", "versity"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> Kept:
    if request.param == "folder":
        folder = StateFolder(tmp_path / "state")
        return Kept(FolderJournal(folder, REF), lambda: folder.read("tiny"))
    store: ObjectStore = FakeStore(bucket=bucket)
    if request.param == "versity":
        server: S3Server = request.getfixturevalue("versity")
        server.make_bucket(bucket)
        store = server.store(bucket)
    return Kept(BucketJournal(store, REF), lambda: BucketRecords(store).read("tiny"))


def test_an_intent_is_kept_before_its_outcome(kept: Kept) -> None:
    assert kept.read() is None
    kept.journal.intend(FETCH)
    begun = kept.record.intents[0]
    assert (begun.action, begun.names["missing"], begun.outcome) == ("FetchWeights", 3, None)
    kept.journal.done(FETCH, "3 bytes")
    kept.journal.intend(STOP)
    assert [intent.outcome for intent in kept.record.intents] == ["3 bytes", None]


def test_the_same_intent_after_a_crash_is_kept_once(kept: Kept) -> None:
    kept.journal.intend(STOP)
    kept.journal.intend(STOP)
    kept.journal.done(STOP, "gone")
    assert [intent.outcome for intent in kept.record.intents] == ["gone"]


def test_settling_keeps_the_last_generations_each_once(kept: Kept) -> None:
    kept.journal.intend(STOP)
    for number in range(KEPT_GENERATIONS + 2):
        kept.journal.settle(generation(f"tiny-{number}"))
    kept.journal.settle(generation("tiny-4"))
    record = kept.record
    assert [g.server for g in record.generations] == ["tiny-2", "tiny-3", "tiny-5", "tiny-6", "tiny-4"]
    assert record.intents == ()
    assert record.current == generation("tiny-4")


def test_an_action_with_pairs_is_found_again_by_its_outcome(kept: Kept) -> None:
    build = BuildEnvironment(environment="e", packages=("six", "idna"), requirements="")
    kept.journal.intend(build)
    kept.journal.done(build, "up")
    assert [(i.names["packages"], i.outcome) for i in kept.record.intents] == [(["six", "idna"], "up")]


def test_names_are_of_what_is_in_the_bucket(strict: ObjectStore) -> None:
    records = BucketRecords(strict)
    assert records.names() == ()
    BucketJournal(strict, REF).intend(STOP)
    strict.put("deployments/bare/lock.json", b"{}")
    strict.put("deployments/Not A Name/record.json", b"{}")
    strict.put("weights/other", b"")
    assert records.names() == ("bare", "tiny")
    assert records.read("bare") is None


def test_remove_leaves_nothing_and_the_removal_is_not_written_down(strict: ObjectStore) -> None:
    records, journal = BucketRecords(strict), BucketJournal(strict, REF)
    journal.intend(STOP)
    records.remove("tiny")
    journal.done(STOP, "gone")
    records.remove("tiny")
    assert list(strict.list("")) == []


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".", "A"])
def test_a_name_never_leaves_its_prefix(name: str) -> None:
    with pytest.raises(UsageRefused):
        BucketRecords(FakeStore()).remove(name)


def test_a_record_cut_anywhere_is_kept_aside_and_never_misread() -> None:
    store = FakeStore()
    records, journal = BucketRecords(store), BucketJournal(store, REF)
    journal.settle(generation("tiny-1"))
    whole = store.objects[KEY]
    for length in range(len(whole) - 1):
        store.put(KEY, whole[:length])
        assert records.read("tiny") is None
        assert f"s3://fake/{KEY}" in records.trouble("tiny")
    cut = store.objects[KEY]
    journal.intend(STOP)
    assert store.objects[f"{KEY}.bak1"] == cut
    store.put(KEY, b"\xff\xfe")
    journal.intend(STOP)
    assert (store.objects[f"{KEY}.bak1"], store.objects[f"{KEY}.bak2"]) == (cut, b"\xff\xfe")
    assert records.trouble("tiny") == ""


def test_a_record_of_a_newer_lmi_is_refused_and_left_alone() -> None:
    store = FakeStore()
    newer = json.dumps({"schema": 2, "ref": "otherwise"}).encode()
    store.put(KEY, newer)
    with pytest.raises(Refused, match="newer lmi") as caught:
        BucketRecords(store).read("tiny")
    assert "upgrade" in caught.value.hint
    with pytest.raises(Refused):
        BucketJournal(store, REF).intend(STOP)
    assert store.objects[KEY] == newer


def test_a_second_writer_is_refused_and_changes_nothing(strict: ObjectStore) -> None:
    records = BucketRecords(strict)
    BucketJournal(strict, REF).intend(STOP)
    record, seen = records.open("tiny")
    assert record is not None
    BucketJournal(strict, REF).done(STOP, "theirs")
    with pytest.raises(Refused, match="somebody else wrote it") as caught:
        records.write(record, seen)
    assert caught.value.exit_code == 5
    assert caught.value.hint
    with pytest.raises(Refused):
        records.write(record, None)
    found = records.read("tiny")
    assert found is not None
    assert found.intents[0].outcome == "theirs"
