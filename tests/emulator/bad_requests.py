"""Requests that AWS refuses, generated from botocore's service model: one error in each, and its message."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmi_deploy.emulator.wire.service_models import service_model

SAMPLES = (
    "name",
    "arn:aws:iam::123456789012:role/execution",
    "arn:aws:sns:us-east-1:123456789012:topic",
    "arn:aws:sagemaker:us-east-1:123456789012:model/name",
    "arn:aws:sagemaker:us-east-1:123456789012:training-plan/name",
    "arn:aws:s3:::bucket/key",
    "s3://bucket/key/",
    "sg-0123456789abcdef0",
    "subnet-0123456789abcdef0",
    "application/json",
    "10",
    "/metrics",
)
MAX_DEPTH = 4


@dataclass(frozen=True)
class BadRequest:
    operation: str
    params: Mapping[str, Any]
    code: str
    phrase: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.phrase}"


def bad_requests(service: str, operations: tuple[str, ...]) -> Iterator[BadRequest]:
    """Missing, too long, too short, malformed, unknown, too many, too large, of the wrong type: member by
    member."""
    model = service_model(service)
    for operation in operations:
        shape = model.operation_model(operation).input_shape
        good = sample(shape, depth=0)
        for code, phrase, path, value in _faults(shape, ()):
            yield BadRequest(operation, _with(good, path, value), code, phrase)


def sample(shape: Any, *, depth: int, is_complete: bool = False) -> Any:
    """A valid value; of structures, the required members."""
    kind = shape.type_name
    if kind == "structure":
        names = shape.members if is_complete else shape.required_members
        return {name: sample(shape.members[name], depth=depth + 1) for name in names}
    if kind == "list":
        return [sample(shape.member, depth=depth + 1) for _ in range(max(1, shape.metadata.get("min", 1)))]
    if kind == "map":
        return {sample(shape.key, depth=depth + 1): sample(shape.value, depth=depth + 1)}
    if kind == "string":
        return _text(shape)
    if kind in ("integer", "long", "float", "double"):
        return shape.metadata.get("min", 1)
    return {"boolean": True, "timestamp": 1.7e9, "blob": b""}[kind]


def _text(shape: Any) -> str:
    if shape.enum:
        return str(shape.enum[0])
    pattern, least = shape.metadata.get("pattern", ""), shape.metadata.get("min", 0)
    most = shape.metadata.get("max", 10_000)
    for text in SAMPLES:
        if least <= len(text) <= most and (r"\p" in pattern or re.fullmatch(pattern or ".*", text)):
            return text
    raise LookupError(f"{shape.name}: no sample matches {pattern}")


AwsError = tuple[str, str, tuple[Any, ...], Any]
INVALID = "ValidationException"


def _faults(shape: Any, path: tuple[Any, ...]) -> Iterator[AwsError]:
    kind = shape.type_name
    if kind == "structure":
        yield from _structure_faults(shape, path)
    elif kind == "list":
        yield from _list_faults(shape, path)
    elif kind == "string":
        yield from _string_faults(shape, path)
    elif kind in ("integer", "float"):
        yield from _number_faults(shape, path)
    elif kind == "boolean":
        yield "SerializationException", "NUMBER_VALUE can not be converted to a Boolean", path, 1


def _structure_faults(shape: Any, path: tuple[Any, ...]) -> Iterator[AwsError]:
    if path:
        yield "SerializationException", "Expected structure or null", path, "text"
    yield INVALID, f"{shape.name} has no member NoSuchMember", (*path, "NoSuchMember"), "text"
    for name in shape.required_members:
        at = (*path, name)
        yield (
            INVALID,
            f"Value null at '{_words(at)}' failed to satisfy constraint: Member must not be null",
            at,
            None,
        )
    if len(path) < MAX_DEPTH:
        for name, member in shape.members.items():
            yield from _faults(member, (*path, name))


def _list_faults(shape: Any, path: tuple[Any, ...]) -> Iterator[AwsError]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    item = sample(shape.member, depth=len(path))
    if low:
        phrase = (
            f"Value '[]' at '{_words(path)}' failed to satisfy constraint: Member must have length greater"
        )
        yield INVALID, f"{phrase} than or equal to {low}", path, []
    if high and high < 200:
        phrase = (
            f"at '{_words(path)}' failed to satisfy constraint: Member must have length less than or equal"
        )
        yield INVALID, f"{phrase} to {high}", path, [copy.deepcopy(item) for _ in range(high + 1)]
    yield "SerializationException", "Expected list or null", path, "text"
    if len(path) < MAX_DEPTH:
        yield from _faults(shape.member, (*path, 0))


def _string_faults(shape: Any, path: tuple[Any, ...]) -> Iterator[AwsError]:
    where = f"at '{_words(path)}' failed to satisfy constraint: Member must"
    yield "SerializationException", "NUMBER_VALUE can not be converted to a String", path, 7
    if shape.enum:
        listed = ", ".join(shape.enum)
        yield INVALID, f"Value 'no-such' {where} satisfy enum value set: [{listed}]", path, "no-such"
        return
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    pattern = shape.metadata.get("pattern")
    if high:
        yield INVALID, f"{where} have length less than or equal to {high}", path, "a" * (high + 1)
    if low:
        yield INVALID, f"Value '' {where} have length greater than or equal to {low}", path, ""
    if pattern and r"\p" not in pattern and not re.fullmatch(pattern, " !\n"):
        text = f"Value ' !\n' {where} satisfy regular expression pattern: {pattern}"
        yield INVALID, text, path, " !\n"


def _number_faults(shape: Any, path: tuple[Any, ...]) -> Iterator[AwsError]:
    where = f"at '{_words(path)}' failed to satisfy constraint: Member must have value"
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    kind = "an Integer" if shape.type_name == "integer" else "a Double"
    yield "SerializationException", f"STRING_VALUE can not be converted to {kind}", path, "many"
    if low is not None:
        yield INVALID, f"Value '{low - 1}' {where} greater than or equal to {low}", path, low - 1
    if high is not None:
        yield INVALID, f"Value '{high + 1}' {where} less than or equal to {high}", path, high + 1


def _words(path: tuple[Any, ...]) -> str:
    """productionVariants.1.member.instanceType"""
    return ".".join(
        f"{part + 1}.member" if isinstance(part, int) else part[:1].lower() + part[1:] for part in path
    )


def _with(good: Any, path: tuple[Any, ...], value: Any) -> Any:
    """`good` with this value at the path; None removes the member. Missing parents are created."""
    created = copy.deepcopy(good)
    existing: Any = created
    for part, following in itertools.pairwise(path):
        if isinstance(existing, dict):
            existing = existing.setdefault(part, [{}] if isinstance(following, int) else {})
        else:
            existing = existing[part]
    if value is None:
        existing.pop(path[-1], None)
    elif isinstance(existing, list):
        existing[path[-1] :] = [value]
    else:
        existing[path[-1]] = value
    return created
