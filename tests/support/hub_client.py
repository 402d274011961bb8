"""Our Hub adapter with a local Hub, ready for a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub
from tests.support.frozen_clock import FrozenClock
from tests.support.hub import LocalHub

WEIGHTS = bytes(range(256)) * 4000
SIZE = len(WEIGHTS)
FILES = {"config.json": b'{"a": 1}' * 40, "model.safetensors": WEIGHTS, "empty": b"", "sub/x.json": b"{}"}


class HubClient:
    """The adapter with a home of its own, a clock without real waits, and short time limits."""

    def __init__(self, hub: LocalHub | str, home: Path, environ: Mapping[str, str] | None = None) -> None:
        self.clock = FrozenClock()
        self.home = home
        url = hub if isinstance(hub, str) else hub.url
        requests = {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DOWNLOAD_TIMEOUT": "0.4"}
        self.settings = HubSettings.read(requests | dict(environ or {}), home)
        self.adapter = self.another()
        self.notices: list[str] = []
        """Notices."""

    def another(self, ledger: Path | None = None) -> HuggingFaceHub:
        """A new adapter on the same home, as in another run of the command."""
        return HuggingFaceHub(self.settings, self.clock, ledger=ledger, random=Random(1))

    def listed(self, model_id: str = "org/m", revision: str = "main") -> ModelListing:
        return self.adapter.listing(model_id, revision)

    def fetch(self, listing: ModelListing) -> tuple[Path, list[Progress]]:
        """All files of a listing; returns the snapshot folder and the progress events."""
        fetching = self.adapter.fetch(listing, listing.files, key="weights")
        events: list[Progress] = []
        try:
            while True:
                events += self.collect(next(fetching))
        except StopIteration as end:
            return Path(end.value), events

    def collect(self, event: Event) -> list[Progress]:
        """Records notices and returns progress events."""
        self.notices += [event.text] if isinstance(event, Notice) else []
        return [event] if isinstance(event, Progress) else []

    def final_names(self) -> set[str]:
        """Every blob and every link in the cache that is not marked as incomplete."""
        repos = self.home / "hub"
        found = (path for folder in ("blobs", "snapshots") for path in repos.glob(f"*/{folder}/**/*"))
        return {path.name for path in found if not path.is_dir() and path.suffix != ".incomplete"}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
