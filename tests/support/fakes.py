"""Small working fakes of the ports: a Hub on a dictionary, environments in a set, a clock that jumps."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing, ModelSource
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import DeployFailed, NotFound, TransferFailed
from lmi_deploy.ports.environments import CacheEntry
from lmi_deploy.ports.source import BytesRead

BEGIN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


class FakeClock:
    """Time passes only during a sleep."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


def safetensors(parameters: int = 4) -> bytes:
    """A complete file with one tensor of that many bfloat16."""
    tensor = {"dtype": "BF16", "shape": [parameters], "data_offsets": [0, 2 * parameters]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "model.weight": tensor}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0\1" * parameters


def model_files(architecture: str = "LlamaForCausalLM", **config: object) -> dict[str, bytes]:
    """A repository of a few hundred bytes with all that a plan reads."""
    response = {"architectures": [architecture], "max_position_embeddings": 128, **config}
    return {
        "README.md": b"# Tiny\n",
        "config.json": json.dumps(response).encode(),
        "model.safetensors": safetensors(),
        "pytorch_model.bin": b"\x80\x04pickle",
        "tokenizer.json": b"{}",
    }


@dataclass
class FakeHub:
    """`models` are the known model ids; downloaded files are in `cached` and stay there."""

    root: Path
    models: dict[str, dict[str, bytes]]
    source: ModelSource = "hub"
    cached: set[str] = field(default_factory=set)
    gated: bool = False
    failure: BaseException | None = None
    """Raised by everything that would use the network."""
    free: int = 1 << 60
    """Free bytes on the disk."""

    def listing(self, model_id: str, revision: str) -> ModelListing:
        files = tuple(
            FileEntry(path=path, size=len(content), oid=oid_of(content, "sha256"), kind="sha256")
            for path, content in sorted(self._files(model_id).items())
        )
        commit = digest([(file.path, file.oid) for file in files])[:40]
        return ModelListing(
            model_id=model_id, commit=commit, files=files, source=self.source, gated=self.gated
        )

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        content = self._files(listing.model_id)[path]
        return content[start : None if length is None else start + length]

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        if self.failure:
            raise self.failure
        buffer[:] = self._files(listing.model_id)[path][start : start + len(buffer)]
        yield BytesRead(len(buffer))

    def folder(self, listing: ModelListing) -> Path:
        return self.root / "hub" / listing.model_id.replace("/", "--") / listing.commit

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        return sum(file.size for file in files if file.oid not in self.cached)

    def require_space(self, listing: ModelListing, files: Sequence[FileEntry]) -> None:
        if (needed := self.missing(listing, files)) > self.free:
            raise TransferFailed(
                f"{needed} bytes to download, but only {self.free} are free", hint="make room"
            )

    def fetch(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Progress, None, Path]:
        have, done = self._files(listing.model_id), 0
        absent = [file for file in files if file.oid not in self.cached]
        total = self.missing(listing, files)
        for file in absent:
            place = self.folder(listing) / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(have[file.path])
            self.cached.add(file.oid)
            done += file.size
            yield Progress(key=key, done=done, total=total, unit="bytes", note=file.path)
        return self.folder(listing)

    def recheck(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Progress, None, bool]:
        yield from ()
        return False

    def _files(self, model_id: str) -> Mapping[str, bytes]:
        if self.failure is not None:
            raise self.failure
        if model_id not in self.models:
            raise NotFound(f"{model_id}: no such model", hint="check its spelling on the Hub")
        return self.models[model_id]


@dataclass
class FakeEnvironments:
    """`created` contains the names: environments by name, the engine as `engine-VERSION`."""

    root: Path
    created: set[str] = field(default_factory=set)
    disk_is_full: bool = False
    interpreter: Path | None = None
    """A real one, for tests that run a script."""

    def ready(self, environment: str) -> bool:
        return environment in self.created

    def python(self, environment: str) -> Path:
        return self.interpreter or self.root / environment / "bin" / "python"

    def require_space(
        self, environment: str, packages: tuple[str, ...], requirements: str, setup: EnvironmentSetup = PLAIN
    ) -> None:
        if self.disk_is_full:
            raise DeployFailed("0 B free, the serving environment needs about 1 GB", hint="free some space")

    def build(
        self,
        environment: str,
        packages: tuple[str, ...],
        requirements: str,
        setup: EnvironmentSetup = PLAIN,
        *,
        key: str,
    ) -> Generator[Event, None, str]:
        for package in packages:
            yield Line(key=key, text=f"installing {package}")
        self.created.add(environment)
        return f"{len(packages)} packages"

    def engine_ready(self, version: str) -> bool:
        return f"engine-{version}" in self.created

    def engine(self, version: str) -> Path:
        return self.root / f"engine-{version}"

    def install_engine(self, version: str, *, key: str) -> Generator[Event, None, str]:
        yield Progress(key=key, done=217_000, total=217_000, unit="bytes")
        self.created.add(f"engine-{version}")
        return "unpacked"

    def entries(self) -> tuple[CacheEntry, ...]:
        return tuple(
            CacheEntry(kind="environment", name=name, path=self.root / name, size=1000)
            for name in sorted(self.created)
        )

    def remove(self, name: str) -> int:
        if name not in self.created:
            raise NotFound(f"{name}: not in the cache", hint="`lmi cache ls` shows the names")
        self.created.remove(name)
        return 1000
