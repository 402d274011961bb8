"""Deployments in AWS, listed in the state folder: one small file each.

`<name>.<region>.<account>.json`; older versions wrote `<name>.<region>.json`, whose account may be in the name of its
bucket.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.default_bucket import account_of
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import UsageRefused
from lmi_deploy.host.disk import on_disk, write_atomically

_REGION = re.compile(r"[a-z0-9-]+")
_ACCOUNT = re.compile(r"[0-9]*")


@dataclass(frozen=True, slots=True)
class DeploymentIndexFolder:
    """The port DeploymentIndex. Of a damaged file its name counts, which has all but the bucket."""

    root: Path

    def all(self) -> tuple[DeploymentRef, ...]:
        if not self.root.is_dir():
            return ()
        read = (_read(path) for path in self.root.glob("*.json"))
        found = {(ref.name, ref.region, ref.account): ref for ref in read if ref is not None}
        return tuple(found[key] for key in sorted(found))

    def add(self, ref: DeploymentRef) -> None:
        path = self._path(ref)
        with on_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(dump(ref)) + "\n")
        self._drop_older(ref)

    def discard(self, ref: DeploymentRef) -> None:
        self._path(ref).unlink(missing_ok=True)
        self._drop_older(ref)

    def _drop_older(self, ref: DeploymentRef) -> None:
        """The file of an older version, if it belongs to the same deployment: by its account, else by its bucket."""
        path = self._path(replace(ref, account=""))
        older = _read(path)
        if not ref.account or older is None:
            return
        same = older.account == ref.account if older.account else older.bucket == ref.bucket
        if same:
            path.unlink(missing_ok=True)

    def _path(self, ref: DeploymentRef) -> Path:
        valid = _REGION.fullmatch(ref.region) and _ACCOUNT.fullmatch(ref.account)
        if name_error(ref.name) or not valid:
            raise UsageRefused(
                f"{ref.name} in {ref.region!r}: not a deployment", hint="`lmi ls` lists the deployments"
            )
        return self.root / ".".join(filter(None, (ref.name, ref.region, ref.account, "json")))


def _read(path: Path) -> DeploymentRef | None:
    """None if there is no such file, or none that lmi wrote."""
    try:
        ref = load(DeploymentRef, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return _named(path.stem)
    return ref if ref.account else replace(ref, account=account_of(ref.bucket))


def _named(stem: str) -> DeploymentRef | None:
    name, region, account, *more = (*stem.split("."), "", "")
    if any(more) or name_error(name) or not (_REGION.fullmatch(region) and _ACCOUNT.fullmatch(account)):
        return None
    return DeploymentRef(name=name, target="sagemaker", region=region, account=account)
