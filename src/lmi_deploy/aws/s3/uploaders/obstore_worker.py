"""`python -m lmi_deploy.aws.s3.uploaders.obstore_worker`: upload files to S3 by obstore, hashing each while it is
read.

On standard input the settings, then a line per file; on standard output a line for each uploaded file, or why it
failed. A file whose content has another oid becomes no object: a small one is not sent, the parts of a large one are
aborted.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.content_hashes import ContentHasher
from lmi_deploy.domain.crc32 import crc32, crc32_text

_TIMEOUT: Final = "300s"
_PARTS_AT_ONCE: Final = 2
_QUIET: Final = 0.1


class UploadHashMismatch(Exception):
    """Not the bytes that were meant; `got` is the oid that they have."""

    def __init__(self, got: str) -> None:
        super().__init__(got)
        self.got = got


class StreamHasher(ContentHasher):
    """The hashes of the bytes read of a file, with their CRC32."""

    def __init__(self, load: Mapping[str, Any]) -> None:
        super().__init__(load["kind"], load["size"])
        self._expected = load["oid"]
        self._crc = 0

    def update(self, chunk: bytes | memoryview) -> None:
        super().update(chunk)
        self._crc = crc32(chunk, self._crc)

    def check(self) -> dict[str, str]:
        if self._expected and self.oid != self._expected:
            raise UploadHashMismatch(self.oid)
        return {"sha256": self.sha256, "crc32": crc32_text(self._crc)}


def open_store(order: Mapping[str, Any]) -> Any:
    from obstore.store import S3Store

    access, secret, token = order["keys"]
    encrypted = {"server_side_encryption": "aws:kms", "sse_kms_key_id": order["kms_key"]}
    bucket_key = {"sse_bucket_key_enabled": True}
    return S3Store(
        order["bucket"],
        region=order["region"],
        access_key_id=access,
        secret_access_key=secret,
        checksum_algorithm="sha256",
        client_options=_connections(order),
        retry_config={"max_retries": order["retries"], "retry_timeout": timedelta(seconds=120)},
        **({"token": token} if token else {}),
        **({"endpoint": order["endpoint"]} if order["endpoint"] else {}),
        **({**encrypted, **bucket_key} if order["kms_key"] else {}),
    )


def _connections(order: Mapping[str, Any]) -> Any:
    return {
        "allow_http": order["endpoint"].startswith("http://"),
        "timeout": _TIMEOUT,
        "connect_timeout": "10s",
        **({"default_headers": {"x-amz-expected-bucket-owner": order["owner"]}} if order["owner"] else {}),
        **({"root_certificate": order["authorities"]} if order["authorities"] else {}),
    }


def send(store: Any, load: Mapping[str, Any]) -> dict[str, Any]:
    """The result for a file."""
    from obstore.exceptions import BaseError

    try:
        return {"key": load["key"], **_sent(store, load)}
    except UploadHashMismatch as wrong:
        return {"got": wrong.got, "path": load["path"], "oid": load["oid"], "kind": load["kind"]}
    except (OSError, BaseError) as exc:
        return {"error": f"{load['path']}: {' '.join(str(exc).split())}"[:2000]}


def _sent(store: Any, load: Mapping[str, Any]) -> dict[str, str]:
    from obstore import put

    hasher, path = StreamHasher(load), Path(load["path"])
    if load["size"] <= load["part"]:
        content = path.read_bytes()
        hasher.update(content)
        found = hasher.check()
        response = put(store, load["key"], content, use_multipart=False)
    else:
        chunks = _chunks(path, hasher, load["part"])
        several: dict[str, Any] = {"use_multipart": True, "max_concurrency": _PARTS_AT_ONCE}
        response = put(store, load["key"], chunks, chunk_size=load["part"], **several)
        found = hasher.check()
    return {**found, "etag": (response["e_tag"] or "").strip('"')}


def _chunks(path: Path, hasher: StreamHasher, size: int) -> Iterator[bytes]:
    """Raises before the end if the content is wrong: obstore then aborts the upload."""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(size):
            hasher.update(chunk)
            yield chunk
    hasher.check()


def _report(results: queue.SimpleQueue[Future[dict[str, Any]]], count: int) -> None:
    """Print the results as they come. Standard output is flushed when none came for a moment: for small files a write
    for each would cost more than the upload."""
    while count:
        try:
            result = results.get(timeout=_QUIET).result()
        except queue.Empty:
            sys.stdout.flush()
            continue
        sys.stdout.write(json.dumps(result) + "\n")
        count -= 1
    sys.stdout.flush()


def main() -> None:
    order = json.loads(sys.stdin.readline())
    store, loads = open_store(order), [json.loads(line) for line in sys.stdin]
    results: queue.SimpleQueue[Future[dict[str, Any]]] = queue.SimpleQueue()
    with ThreadPoolExecutor(order["at_once"]) as pool:
        for load in loads:
            pool.submit(send, store, load).add_done_callback(results.put)
        _report(results, len(loads))


if __name__ == "__main__":
    main()
