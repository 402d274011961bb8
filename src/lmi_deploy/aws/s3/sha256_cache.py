"""The sha256 of objects: from S3 if it has one of the whole object, else by reading them, once."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lmi_deploy.errors.url_credentials import mask_urls
from lmi_deploy.ports.object_store import ObjectStore, StoredObject


class Sha256Cache:
    """A ledger in `file`: an object of the same key, size and ETag is the same object, and is not read again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known = dict(_lines(file))

    def sha256(self, store: ObjectStore, found: StoredObject) -> str:
        """Streamed, for any size; Conflict if the object is replaced in the meantime."""
        mark = f"{mask_urls(store.where)} {store.bucket} {found.key} {found.size} {found.etag}"
        known = self._known.get(mark)
        if known is None:
            known = _checksum_in_s3(store, found) or _read(store, found)
            self._add(mark, known)
        return known

    def _add(self, mark: str, sha256: str) -> None:
        with self._lock:
            self._known[mark] = sha256
            # The ledger only saves time: if it cannot be written, the next run reads again.
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([mark, sha256]) + "\n")


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """A line that a kill cut short is passed over."""
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError):
            mark, sha256 = json.loads(line)
            yield str(mark), str(sha256)


def _checksum_in_s3(store: ObjectStore, found: StoredObject) -> str:
    now = store.head(found.key)
    if now is None or now.etag != found.etag or now.algorithm != "SHA256":
        return ""
    return base64.b64decode(now.checksum).hex()


def _read(store: ObjectStore, found: StoredObject) -> str:
    hasher = hashlib.sha256()
    for chunk in store.read(found.key, etag=found.etag):
        hasher.update(chunk)
    return hasher.hexdigest()
