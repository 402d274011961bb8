"""The journal of a deployment, in a folder or in a bucket: the same steps give the same history."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lmi_deploy.aws.s3.record_journal import BucketJournal, BucketRecords
from lmi_deploy.domain.local_actions import BuildEnvironment, FetchWeights, StopServer
from lmi_deploy.domain.record import KEPT_GENERATIONS, SCHEMA, DeploymentRef, Record
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.state.state_dir import FileJournal, StateDir
from tests.support.factories import generation
from tests.support.fake_store import FakeStore
from tests.support.s3_servers import S3Server

REF = DeploymentRef(name="tiny", target="sagemaker")
STOP = StopServer(server="tiny-1")
FETCH = FetchWeights(model_id="org/m", commit="c", files=(), missing=3)
KEY = "deployments/tiny/record.json"


@dataclass(frozen=True)
class JournalCase:
    """A journal, and a way to read what it wrote."""

    journal: Journal
    read: Callable[[], Record | None]

    @property
    def record(self) -> Record:
        found = self.read()
        assert found is not None
        return found


@pytest.fixture(params=["folder", "fake", "versity"])
def journal_case(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> JournalCase:
    if request.param == "folder":
        folder = StateDir(tmp_path / "state")
        return JournalCase(FileJournal(folder, REF), lambda: folder.read("tiny"))
    store: ObjectStore = FakeStore(bucket=bucket)
    if request.param == "versity":
        server: S3Server = request.getfixturevalue("versity")
        server.make_bucket(bucket)
        store = server.store(bucket)
    return JournalCase(BucketJournal(store, REF), lambda: BucketRecords(store).read("tiny"))


def test_intent_is_stored_before_its_outcome(journal_case: JournalCase) -> None:
    assert journal_case.read() is None
    journal_case.journal.begin(FETCH)
    started = journal_case.record.intents[0]
    assert (started.action, started.names["missing"], started.outcome) == ("FetchWeights", 3, None)
    journal_case.journal.complete(FETCH, "3 bytes")
    journal_case.journal.begin(STOP)
    assert [intent.outcome for intent in journal_case.record.intents] == ["3 bytes", None]


def test_repeated_intent_is_stored_once(journal_case: JournalCase) -> None:
    journal_case.journal.begin(STOP)
    journal_case.journal.begin(STOP)
    journal_case.journal.complete(STOP, "gone")
    assert [intent.outcome for intent in journal_case.record.intents] == ["gone"]


def test_commit_keeps_the_last_generations_without_duplicates(journal_case: JournalCase) -> None:
    journal_case.journal.begin(STOP)
    for number in range(KEPT_GENERATIONS + 2):
        journal_case.journal.commit(generation(f"tiny-{number}"))
    journal_case.journal.commit(generation("tiny-4"))
    record = journal_case.record
    assert [g.server for g in record.generations] == ["tiny-2", "tiny-3", "tiny-5", "tiny-6", "tiny-4"]
    assert record.intents == ()
    assert record.current == generation("tiny-4")


def test_outcome_is_stored_for_an_action_with_list_fields(journal_case: JournalCase) -> None:
    build = BuildEnvironment(environment="e", packages=("six", "idna"), requirements="")
    journal_case.journal.begin(build)
    journal_case.journal.complete(build, "up")
    assert [(i.names["packages"], i.outcome) for i in journal_case.record.intents] == [
        (["six", "idna"], "up")
    ]


def test_names_lists_the_deployments_in_the_bucket(strict: ObjectStore) -> None:
    records = BucketRecords(strict)
    assert records.names() == ()
    BucketJournal(strict, REF).begin(STOP)
    strict.put("deployments/bare/lock.json", b"{}")
    strict.put("deployments/Not A Name/record.json", b"{}")
    strict.put("weights/other", b"")
    assert records.names() == ("bare", "tiny")
    assert records.read("bare") is None


def test_remove_leaves_no_object_and_is_not_recorded(strict: ObjectStore) -> None:
    records, journal = BucketRecords(strict), BucketJournal(strict, REF)
    journal.begin(STOP)
    records.remove("tiny")
    journal.complete(STOP, "gone")
    records.remove("tiny")
    assert list(strict.list("")) == []


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".", "A"])
def test_name_outside_the_prefix_is_refused(name: str) -> None:
    with pytest.raises(UsageRefused):
        BucketRecords(FakeStore()).remove(name)


def test_truncated_record_is_quarantined_and_never_misread() -> None:
    store = FakeStore()
    records, journal = BucketRecords(store), BucketJournal(store, REF)
    journal.commit(generation("tiny-1"))
    content = store.objects[KEY]
    for length in range(len(content) - 1):
        store.put(KEY, content[:length])
        assert records.read("tiny") is None
        assert f"s3://fake/{KEY} is damaged" in records.examine("tiny")[1]
    for text in (
        b"[" * 100_000,
        b'{"schema": 2, "ref": []}',
        b'{"schema": 2, "ref": {"name": [[]], "target": {}}}',
    ):
        store.put(KEY, text)
        assert "is damaged" in records.examine("tiny")[1]
    store.put(KEY, content[:-2])
    cut = store.objects[KEY]
    journal.begin(STOP)
    assert store.objects[f"{KEY}.bak1"] == cut
    store.put(KEY, b"\xff\xfe")
    journal.begin(STOP)
    assert (store.objects[f"{KEY}.bak1"], store.objects[f"{KEY}.bak2"]) == (cut, b"\xff\xfe")
    assert records.examine("tiny")[1] == ""


def test_record_of_a_newer_lmi_is_refused_and_unchanged() -> None:
    store = FakeStore()
    newer = json.dumps({"schema": SCHEMA + 1, "ref": "otherwise"}).encode()
    store.put(KEY, newer)
    with pytest.raises(Refused, match="newer lmi") as caught:
        BucketRecords(store).read("tiny")
    assert "newer lmi" in caught.value.hint
    with pytest.raises(Refused):
        BucketJournal(store, REF).begin(STOP)
    assert store.objects[KEY] == newer


def test_second_writer_is_refused_and_changes_nothing(strict: ObjectStore) -> None:
    records = BucketRecords(strict)
    BucketJournal(strict, REF).begin(STOP)
    record, observed = records.open("tiny")
    assert record is not None
    BucketJournal(strict, REF).complete(STOP, "theirs")
    with pytest.raises(Refused, match="another process changed it") as caught:
        records.write(record, observed)
    assert caught.value.exit_code == 5
    assert caught.value.hint
    with pytest.raises(Refused):
        records.write(record, None)
    found = records.read("tiny")
    assert found is not None
    assert found.intents[0].outcome == "theirs"
