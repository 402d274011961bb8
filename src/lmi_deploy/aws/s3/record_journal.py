"""The records of deployments in their bucket: `deployments/<name>/record.json`, written under conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import AN_UP, DeploymentRef, Generation, Record, ServingChange
from lmi_deploy.domain.record_json import (
    accepted,
    expected,
    finished,
    intended,
    parse_record,
    record_text,
    settled,
)
from lmi_deploy.domain.sagemaker.exported_stack import claimant
from lmi_deploy.errors import Conflict, Refused, UsageRefused
from lmi_deploy.ports.object_store import ObjectStore, StoredObject

DEPLOYMENTS: Final = "deployments/"
_RECORD: Final = "record.json"


def deployment_prefix(name: str) -> str:
    """The prefix of a deployment's history; UsageRefused for an invalid name."""
    if error := name_error(name):
        raise UsageRefused(f"{name}: not a valid deployment name", hint=error)
    return f"{DEPLOYMENTS}{name}/"


class BucketRecords:
    """The records of deployments in a bucket."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def names(self) -> tuple[str, ...]:
        """Every deployment with a stored object."""
        found = {
            stored.key.removeprefix(DEPLOYMENTS).split("/")[0] for stored in self._store.list(DEPLOYMENTS)
        }
        return tuple(sorted(name for name in found if not name_error(name)))

    def read(self, name: str) -> Record | None:
        return self.examine(name)[0]

    def examine(self, name: str) -> tuple[Record | None, str]:
        try:
            return self.open(name)[0], ""
        except ValueError as exc:
            return None, f"{self._where(name)} is damaged: {exc}"

    def remove(self, name: str) -> None:
        """All its objects, the record last, but the claims of exported stacks. The holder releases the lock."""
        prefix = deployment_prefix(name)
        found = (stored.key for stored in self._store.list(prefix))
        keys = sorted(
            (key for key in found if not key.endswith("/lock.json") and not claimant(key)),
            key=lambda key: key.endswith(_RECORD),
        )
        self._store.delete(keys)

    def journal(self, ref: DeploymentRef) -> BucketJournal:
        return BucketJournal(self._store, ref)

    def open(self, name: str) -> tuple[Record | None, StoredObject | None]:
        """The record and the version of it that was read; ValueError if it is not valid."""
        found = self._store.get(self.key(name))
        if found is None:
            return None, None
        return parse_record(found[0], self._where(name)), found[1]

    def write(self, record: Record, observed: StoredObject | None) -> None:
        """Replaces the version that was read, and no other."""
        key, body = self.key(record.ref.name), record_text(record).encode()
        try:
            if observed is None:
                self._store.put(key, body, if_absent=True)
            else:
                self._store.put(key, body, if_etag=observed.etag)
        except Conflict as exc:
            raise Refused(
                f"{self._where(record.ref.name)}: another process changed it at the same time",
                hint="another lmi is changing this deployment: wait until it has ended, then run the command again",
            ) from exc

    def quarantine(self, name: str) -> None:
        """Store an unreadable record beside the record, under an unused name."""
        key = self.key(name)
        found = self._store.get(key)
        if found is None:
            return
        number = 1
        while self._store.head(f"{key}.bak{number}") is not None:
            number += 1
        self._store.put(f"{key}.bak{number}", found[0], if_absent=True)
        self._store.remove(key, if_etag=found[1].etag)

    def key(self, name: str) -> str:
        return deployment_prefix(name) + _RECORD

    def _where(self, name: str) -> str:
        return f"s3://{self._store.bucket}/{self.key(name)}"


class BucketJournal:
    """The port Journal over the bucket. The caller holds the deployment's lock; a second writer is refused anyway."""

    def __init__(self, store: ObjectStore, ref: DeploymentRef) -> None:
        self._records = BucketRecords(store)
        self._ref = ref

    def begin(self, action: Action) -> None:
        self._change(lambda record: intended(record, action))

    def complete(self, action: Action, outcome: str) -> None:
        # If the record no longer exists, the action was its removal.
        self._change(lambda record: finished(record, action, outcome), make=False)

    def set_pending(self, generation: Generation) -> None:
        self._change(lambda record: expected(record, generation))

    def commit(self, generation: Generation, change: ServingChange = AN_UP) -> None:
        self._change(lambda record: settled(record, generation, change))

    def accept(self, server: str) -> None:
        self._change(lambda record: accepted(record, server))

    def restore(self, record: Record) -> None:
        self._change(lambda existing: existing if existing.known else record)

    def _change(self, change: Callable[[Record], Record], *, make: bool = True) -> None:
        try:
            record, observed = self._records.open(self._ref.name)
        except ValueError:
            self._records.quarantine(self._ref.name)
            record, observed = None, None
        if record is not None or make:
            self._records.write(change(record or Record(ref=self._ref)), observed)
