"""moto's state as JSON: plain data and the names of moto's own classes, so that reading it runs no code.

A document is one line of JSON, followed by the larger byte strings. Objects are stored as a table, because they refer
to each other; a class is one of moto's models, created without its constructor, and its attributes restored.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from lmi_deploy.errors import Refused

FORMAT: Final = "lmi emulator state 1"
_MODULES: Final = frozenset(
    (
        *(f"moto.{name}.models" for name in ("iam", "sts", "secretsmanager", "kms", "ssm", "s3")),
        *(f"moto.{name}.utils" for name in ("secretsmanager", "kms", "ssm", "s3")),
        *(
            "moto.utilities.tagging_service",
            "moto.utilities.utils",
            "moto.secretsmanager.list_secrets.filters",
        ),
        *("requests.structures", "collections"),
    )
)
_FACTORIES: Final[Mapping[str, Any]] = {"list": list, "dict": dict, "set": set, "int": int}
_SMALL: Final = 4096
_DERIVED: Final = ("aws_managed_policies", "account_summary")
"""Attributes of an IAM backend that are created with it."""


def dumped(value: Any) -> bytes:
    writer = _Writer()
    root = writer.node(value)
    head = {"format": FORMAT, "root": root, "objects": writer.objects}
    return json.dumps(head).encode() + b"\n" + b"".join(writer.blobs)


def loaded(content: bytes, origin: str, known: Mapping[str, Any] | None = None) -> Any:
    """`known` are AWS's own policies; Refused if it is not a document that the emulator wrote."""
    head, _, blobs = content.partition(b"\n")
    try:
        found = json.loads(head)
        if found.get("format") != FORMAT:
            raise ValueError("another format")
        return _Reader(found["objects"], blobs, known or {}).node(found["root"])
    except (ValueError, KeyError, TypeError, LookupError, AttributeError, ImportError) as exc:
        raise Refused(
            f"{origin}: not the state of this version of the emulator: {exc}",
            hint="name another --dir, or delete this folder",
        ) from exc


def dumped_backend(backend: Any) -> bytes:
    """The state of a service in one region, without what a new backend also contains."""
    state = {key: value for key, value in backend.__dict__.items() if key not in _DERIVED}
    if "managed_policies" in state:
        policies = state["managed_policies"].items()
        state["managed_policies"] = {arn: policy for arn, policy in policies if not is_of_aws(policy)}
    return dumped(state)


def restore_backend(backend: Any, content: bytes, origin: str) -> None:
    """Into a new backend, whose own dictionaries handle missing keys."""
    known = getattr(backend, "managed_policies", {})
    state = loaded(content, origin, known)
    if "managed_policies" in state:
        state["managed_policies"] = {**known, **state["managed_policies"]}
    for name, value in state.items():
        fresh = backend.__dict__.get(name)
        if isinstance(fresh, defaultdict):
            fresh.update(value)
        else:
            backend.__dict__[name] = value


def is_of_aws(existing: object) -> bool:
    from moto.iam.models import AWSManagedPolicy

    return isinstance(existing, AWSManagedPolicy)


class _Writer:
    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.blobs: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._length = 0

    def node(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float) or type(value) is str:
            return value
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, datetime):
            return {"datetime": value.isoformat()}
        if isinstance(value, re.Pattern):
            return {"pattern": value.pattern}
        if type(value) is tuple:
            return {"tuple": [self.node(item) for item in value]}
        if id(value) not in self._numbers:
            # A temporary state object must exist as long as its number.
            self._alive.append(value)
            number = self._numbers[id(value)] = len(self.objects)
            self.objects.append(None)
            self.objects[number] = self._object(value)
        return {"ref": self._numbers[id(value)]}

    def _bytes(self, value: bytes) -> Any:
        if len(value) <= _SMALL:
            return {"bytes": base64.b64encode(value).decode()}
        self.blobs.append(value)
        self._length += len(value)
        return {"blob": [self._length - len(value), len(value)]}

    def _object(self, value: Any) -> Any:
        if type(value) is list:
            return {"list": [self.node(item) for item in value]}
        if isinstance(value, set | frozenset):
            return {"set": [self.node(item) for item in list(value)]}
        if type(value) is dict:
            return {"dict": self._items(value)}
        if is_of_aws(value):
            return {"aws": [value.arn, value.id, value.attachment_count]}
        kind = type(value)
        if kind.__module__.startswith("cryptography."):
            return {"key": self.node(_private_bytes(value))}
        if kind.__module__ not in _MODULES:
            raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not kept by --dir")
        state = value.__getstate__() if _keeps_own_state(kind) else getattr(value, "__dict__", {})
        description: dict[str, Any] = {
            "class": f"{kind.__module__}:{kind.__qualname__}",
            "state": self._items(state),
        }
        if isinstance(value, dict):
            description["items"] = self._items(value)
        if isinstance(value, defaultdict):
            description["factory"] = getattr(value.default_factory, "__name__", "")
        return description

    def _items(self, existing: Mapping[Any, Any]) -> list[Any]:
        # A copy: a container that starts meanwhile takes its role on the event loop, which adds to these.
        return [[self.node(key), self.node(item)] for key, item in list(existing.items())]


class _Reader:
    def __init__(self, objects: list[Any], blobs: bytes, known: Mapping[str, Any]) -> None:
        self._objects = objects
        self._blobs = blobs
        self._known = known
        self._created: dict[int, Any] = {}

    def node(self, description: Any) -> Any:
        if not isinstance(description, dict):
            return description
        ((kind, value),) = description.items()
        return _LEAVES[kind](self, value)

    def bytes(self, text: str) -> bytes:
        return base64.b64decode(text)

    def blob(self, place: list[int]) -> Any:
        start, length = place
        return self._blobs[start : start + length]

    def datetime(self, text: str) -> datetime:
        return datetime.fromisoformat(text)

    def pattern(self, text: str) -> re.Pattern[str]:
        return re.compile(text)

    def tuple(self, items: list[Any]) -> Any:
        return tuple(self.node(item) for item in items)

    def ref(self, number: int) -> Any:
        if number not in self._created:
            self._make(number, self._objects[number])
        return self._created[number]

    def _make(self, number: int, description: Mapping[str, Any]) -> None:
        """Registered by its number before its parts are read: they may refer to it."""
        if "class" in description:
            self._instance(number, description)
        elif "aws" in description:
            arn, ident, attached = description["aws"]
            policy = self._created[number] = self._known[arn]
            policy.id, policy.attachment_count = ident, attached
        elif "key" in description:
            self._created[number] = _private_key(self.node(description["key"]))
        elif "list" in description:
            items = self._created[number] = []
            items.extend(self.node(item) for item in description["list"])
        elif "set" in description:
            self._created[number] = {self.node(item) for item in description["set"]}
        else:
            existing: dict[Any, Any] = {}
            self._created[number] = existing
            existing.update(self._items(description["dict"]))

    def _instance(self, number: int, description: Mapping[str, Any]) -> None:
        kind = _class(description["class"])
        created = self._created[number] = kind.__new__(kind)
        if description.get("factory"):
            created.default_factory = _FACTORIES.get(description["factory"])
        state = dict(self._items(description["state"]))
        if _keeps_own_state(kind):
            created.__setstate__(state)
        elif state:
            created.__dict__.update(state)
        for key, item in self._items(description.get("items", [])):
            dict.__setitem__(created, key, item)

    def _items(self, pairs: list[Any]) -> list[Any]:
        return [(self.node(key), self.node(item)) for key, item in pairs]


_LEAVES: Final[Mapping[str, Callable[[_Reader, Any], Any]]] = {
    "bytes": _Reader.bytes,
    "blob": _Reader.blob,
    "datetime": _Reader.datetime,
    "pattern": _Reader.pattern,
    "tuple": _Reader.tuple,
    "ref": _Reader.ref,
}


def _class(name: str) -> Any:
    """Only a class that moto defines under this name, and no other callable."""
    module, _, kind = name.partition(":")
    if module not in _MODULES:
        raise ValueError(f"{name} is no class of moto's")
    found = getattr(importlib.import_module(module), kind)
    if not isinstance(found, type) or found.__module__ != module:
        raise ValueError(f"{name} is no class of moto's")
    return found


def _keeps_own_state(kind: type) -> bool:
    return kind.__module__ == "moto.s3.models" and hasattr(kind, "__setstate__")


def _private_bytes(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    found: bytes = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return found


def _private_key(content: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    return load_der_private_key(content, None)
