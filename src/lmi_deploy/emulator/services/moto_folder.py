"""The state of moto, stored in a folder: moto itself keeps it only in its process.

IAM, STS and similar services are one file a region; each S3 object is a file. A file is written when its content has
changed. Incomplete multipart uploads are not stored.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lmi_deploy.emulator.record_store import write_atomically
from lmi_deploy.emulator.services.moto_state import dumped, dumped_backend, loaded, restore_backend
from lmi_deploy.emulator.services.s3_objects import s3_backend
from lmi_deploy.errors import Refused

STORED_SERVICES: Final = ("iam", "sts", "secretsmanager", "kms", "ssm")


class MotoFolder:
    """Plain data (`moto_state`): reading it executes nothing, even if another program wrote it."""

    def __init__(self, root: Path, account: str) -> None:
        self._root = root
        self._account = account
        self._lock = threading.Lock()
        self._written: dict[Path, object] = {}

    def load(self) -> None:
        for left in self._root.glob("**/.*.partial"):
            left.unlink()
        if (pickle := next(self._root.glob("**/*.pickle"), None)) is not None:
            raise Refused(
                f"{pickle}: an earlier version of the emulator wrote this pickle, and reading it may run code",
                hint=f"name another --dir, or delete {self._root}",
            )
        for service in STORED_SERVICES:
            for path in sorted(self._root.glob(f"{service}/*.state")):
                restore_backend(_backends(service, self._account)[path.stem], path.read_bytes(), str(path))
        for path in sorted(self._root.glob("s3/*/bucket.state")):
            self._load_bucket(path)
        tags = self._root / "s3" / "tags.state"
        if tags.is_file():
            s3_backend(self._account).tagger.tags = loaded(tags.read_bytes(), str(tags))

    @contextmanager
    def keeping(self, service: str) -> Iterator[None]:
        """Wrap a request that may change the state of this service: at the end the state is on disk.

        One at a time: another request must not change the state while it is written.
        """
        with self._lock:
            yield
            if service == "s3":
                self._save_buckets()
            elif service in STORED_SERVICES:
                for region, backend in list(_backends(service, self._account).items()):
                    self._write(self._root / service / f"{region}.state", dumped_backend(backend))

    def _load_bucket(self, path: Path) -> None:
        from moto.s3.models import s3_backends

        bucket = loaded(path.read_bytes(), str(path))
        for key_path in sorted(path.parent.glob("*.key")):
            name, versions = loaded(key_path.read_bytes(), str(key_path))
            bucket.keys.setlist(name, versions)
            self._written[key_path] = _version_digest(versions)
        s3_backend(self._account).buckets[bucket.name] = bucket
        s3_backends.bucket_accounts[bucket.name] = (bucket.partition, bucket.account_id)

    def _save_buckets(self) -> None:
        backend = s3_backend(self._account)
        kept = {
            path
            for name, bucket in list(backend.buckets.items())
            for path in self._save_bucket(self._root / "s3" / name, bucket)
        }
        self._write(self._root / "s3" / "tags.state", dumped(backend.tagger.tags))
        for path in [*self._root.glob("s3/*/*.key"), *self._root.glob("s3/*/bucket.state")]:
            if path not in kept:
                path.unlink(missing_ok=True)
                self._written.pop(path, None)

    def _save_bucket(self, folder: Path, bucket: Any) -> Iterator[Path]:
        shell = copy.copy(bucket)
        shell.keys, shell.multiparts = type(bucket.keys)(), type(bucket.multiparts)()
        self._write(folder / "bucket.state", dumped(shell))
        yield folder / "bucket.state"
        for name, versions in list(bucket.keys.lists()):
            path = folder / f"{hashlib.sha256(name.encode()).hexdigest()}.key"
            if self._written.get(path) != _version_digest(versions):
                write_atomically(path, dumped([name, versions]))
                self._written[path] = _version_digest(versions)
            yield path

    def _write(self, path: Path, content: bytes) -> None:
        """Unless the file already has this content."""
        mark = hashlib.sha256(content).digest()
        if self._written.get(path) != mark:
            write_atomically(path, content)
            self._written[path] = mark


def _version_digest(versions: list[Any]) -> object:
    """A digest that changes when an object is overwritten."""
    return tuple(
        (getattr(one, "version_id", ""), getattr(one, "last_modified", ""), getattr(one, "etag", ""))
        for one in versions
    )


def _backends(service: str, account: str) -> Any:
    from moto.backends import get_backend

    return get_backend(service)[account]  # type: ignore[call-overload]
