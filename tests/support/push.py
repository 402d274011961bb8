"""One complete push."""

from __future__ import annotations

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.weights import Manifest
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.weights.push import PushContext, push
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.generators import finished


def push_context(source: Source, store: ObjectStore, **settings: int) -> PushContext:
    return PushContext(source=source, store=store, clock=SystemClock(), settings=TransferSettings(**settings))


def pushed(
    listing: ModelListing, by: PushContext, *, files: tuple[FileEntry, ...] | None = None
) -> tuple[Manifest, list[Event]]:
    """The manifest, and all events of the push."""
    return finished(push(listing, files or listing.files, push_context=by, key="weights"))
