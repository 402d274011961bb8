"""Manifests: the list of complete weights in a bucket. Written last, by a conditional write; without one there are no
weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lmi_deploy.domain.dataclass_json import lines_text
from lmi_deploy.domain.settings_digest import shown_fields
from lmi_deploy.domain.weights import MANIFEST_SCHEMA, Manifest, StoredFile, manifest_key
from lmi_deploy.errors import Conflict, IntegrityError, LmiError, Refused
from lmi_deploy.ports.object_store import ObjectStore

_FOLDER, _END = "manifests/", ".json"


def as_bytes(manifest: Manifest) -> bytes:
    """JSON, a line per field and per file: readable for people, and fast for thousands of files."""
    fields = dict(shown_fields(manifest))  # not dataclasses.asdict, which makes deep copies
    files = ",\n  ".join(json.dumps(dict(shown_fields(file)), sort_keys=True) for file in fields.pop("files"))
    texts = {name: json.dumps(value) for name, value in sorted(fields.items())}
    return lines_text({**texts, "files": f"[\n  {files}\n ]"}).encode()


def parse_manifest(content: bytes, key: str) -> Manifest:
    """Refused if a newer lmi wrote it, IntegrityError if it is not a manifest."""
    try:
        found = json.loads(content)
        schema = int(found["schema"])
        if schema == MANIFEST_SCHEMA:
            return _manifest(found)
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise IntegrityError(
            f"{key}: not a manifest: {type(exc).__name__}: {exc}",
            hint=f"delete {key} from the bucket and push the weights again: existing files are kept",
        ) from exc
    raise Refused(
        f"{key}: schema {schema}, but this lmi supports up to {MANIFEST_SCHEMA}",
        hint="use the newer lmi that wrote it",
    )


def _manifest(found: Mapping[str, Any]) -> Manifest:
    fields = dict(found)
    files = tuple(StoredFile(**file) for file in fields.pop("files"))
    manifest = Manifest(files=files, **fields)
    texts = (manifest.name, manifest.model_id, manifest.commit, *(file.path for file in files))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name is not text")
    return manifest


def read_manifest(store: ObjectStore, name: str) -> Manifest | None:
    """None if these weights are not (yet) complete."""
    return _read(store, manifest_key(name))


def _read(store: ObjectStore, key: str) -> Manifest | None:
    found = store.get(key)
    return None if found is None else parse_manifest(found[0], key)


def manifests(
    store: ObjectStore,
    model: str = "",
    commit: str = "",
    *,
    unreadable: Callable[[str, LmiError], None] | None = None,
) -> Iterator[Manifest]:
    """Every manifest of a bucket, or those of one model (`<org>--<name>`), at one commit. One that cannot be read is an
    error, or `unreadable` gets the name of its weights and why.
    """
    prefix = f"{_FOLDER}{model}/{commit}" if model else _FOLDER
    for stored in store.list(prefix):
        if not stored.key.endswith(_END):
            continue
        try:
            found = _read(store, stored.key)
        except (IntegrityError, Refused) as error:
            if unreadable is None:
                raise
            unreadable(_weights_of(stored.key), error)
            continue
        if found is not None:
            yield found


def manifest_names(store: ObjectStore) -> Iterator[str]:
    """The names of all weights with a manifest, by the list of the bucket: none is read."""
    for stored in store.list(_FOLDER):
        if stored.key.endswith(_END):
            yield _weights_of(stored.key)


def _weights_of(key: str) -> str:
    return key.removeprefix(_FOLDER).removesuffix(_END)


def write_manifest(store: ObjectStore, manifest: Manifest) -> Manifest:
    """The manifest that is now in the bucket: ours, or that of another process that pushed the same at
    the same time.
    """
    key = manifest_key(manifest.name)
    try:
        store.put(key, as_bytes(manifest), if_absent=True)
    except Conflict:
        read = store.get(key)
        found = None if read is None else parse_manifest(read[0], key)
        if read is None or found is None or _content(found) != _content(manifest):
            raise IntegrityError(
                f"{key}: another process wrote a different manifest",
                hint="push again; if it fails again, compare both with `lmi weights ls`",
            ) from None
        if found.files != manifest.files:
            # The same bytes in other versions of the objects: it must name the existing ones.
            with suppress(Conflict):
                store.put(key, as_bytes(replace(found, files=manifest.files)), if_etag=read[1].etag)
        return found
    return manifest


def _content(manifest: Manifest) -> list[tuple[str, int, str]]:
    return sorted((file.path, file.size, file.sha256) for file in manifest.files)
