"""Deployments elsewhere, remembered in the state folder: one small file each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.adapters.disk import on_disk
from lmi_deploy.adapters.folder import write_whole
from lmi_deploy.core.frozen_json import dump, load
from lmi_deploy.core.naming import name_mistake
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.errors import UsageRefused

_REGION = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class RememberedFolder:
    """The port Remembered. A file that cannot be read is passed over: the tags tell the same."""

    root: Path

    def all(self) -> tuple[DeploymentRef, ...]:
        if not self.root.is_dir():
            return ()
        read = (_read(path) for path in sorted(self.root.glob("*.json")))
        return tuple(ref for ref in read if ref is not None)

    def keep(self, ref: DeploymentRef) -> None:
        path = self._path(ref)
        with on_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(dump(ref)) + "\n")

    def drop(self, ref: DeploymentRef) -> None:
        self._path(ref).unlink(missing_ok=True)

    def _path(self, ref: DeploymentRef) -> Path:
        if name_mistake(ref.name) or not _REGION.fullmatch(ref.region):
            raise UsageRefused(
                f"{ref.name} in {ref.region!r}: not a deployment", hint="`lmi ls` lists what is here"
            )
        return self.root / f"{ref.name}.{ref.region}.json"


def _read(path: Path) -> DeploymentRef | None:
    try:
        return load(DeploymentRef, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
