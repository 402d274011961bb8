"""Compare the bucket's listing of weights with their manifest: names, sizes, and the versions that were verified."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from lmi_deploy.domain.weights import IntegrityIssue, Manifest, StoredFile, weights_prefix
from lmi_deploy.ports.object_store import ObjectStore, StoredObject
from lmi_deploy.weights.manifests import read_manifest

AT_ONCE = 8


def listed_weights(store: ObjectStore, name: str) -> tuple[Manifest | None, dict[str, StoredObject]]:
    """The manifest, if there is one, and all objects under the prefix. Two calls."""
    manifest = read_manifest(store, name)
    return manifest, {stored.key: stored for stored in store.list(weights_prefix(name))}


def compare_listing(
    store: ObjectStore, manifest: Manifest, listed: Mapping[str, StoredObject]
) -> tuple[IntegrityIssue, ...]:
    """What is missing, additional, of another size, or replaced; sorted by path.

    If an ETag differs from the manifest's, the object is checked: two simultaneous pushes leave another version of
    the same bytes.
    """
    prefix = weights_prefix(manifest.name)
    files = {prefix + file.path: file for file in manifest.files}
    issues = [
        IntegrityIssue(path=key.removeprefix(prefix), why="is not in the manifest")
        for key in listed.keys() - files.keys()
    ]
    replaced = []
    for key, file in files.items():
        if why := size_flaw(file, listed.get(key)):
            issues.append(IntegrityIssue(path=file.path, why=why))
        elif file.etag and listed[key].etag.strip('"') != file.etag:
            replaced.append((key, file))
    if replaced:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            issues += filter(None, pool.map(lambda pair: _replaced(store, *pair), replaced))
    return tuple(sorted(issues, key=lambda issue: issue.path))


def size_flaw(file: StoredFile, listed: StoredObject | None) -> str:
    """Empty if an object of the manifest's size exists."""
    if listed is None:
        return "is missing"
    return "" if listed.size == file.size else f"{listed.size} bytes, but the manifest says {file.size}"


def _replaced(store: ObjectStore, key: str, file: StoredFile) -> IntegrityIssue | None:
    found = store.head(key)
    if found is None:
        return IntegrityIssue(path=file.path, why="is missing")
    if found.checksum and (found.size, found.algorithm, found.checksum) == (
        file.size,
        file.algorithm,
        file.checksum,
    ):
        return None
    return IntegrityIssue(path=file.path, why="was replaced after it was verified")
