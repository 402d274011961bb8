"""AWS's query protocol, used by clients older than CloudWatch's CBOR: a form in, XML out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from lmi_deploy.emulator.wire.errors import ApiError

FORM: Final = "application/x-www-form-urlencoded"
_NUMBERS: Final = {"integer": int, "long": int, "double": float, "float": float}
Tree = dict[str, Any]


def action(body: bytes) -> str:
    """The requested operation; empty if the form names none."""
    return dict(parse_qsl(body.decode("utf-8", "replace"))).get("Action", "")


def read(shape: Any, body: bytes) -> dict[str, Any]:
    """`Dimensions.member.1.Name=...` and the like, as parameters of this shape."""
    tree: Tree = {}
    for path, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        *parents, last = path.split(".")
        place = tree
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = value
    for name in ("Action", "Version"):
        tree.pop(name, None)
    found: dict[str, Any] = _value(shape, tree)
    return found


def _value(shape: Any, found: Any) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(found, dict):
        members = shape.members
        return {
            name: _value(members[name], item) if name in members else item for name, item in found.items()
        }
    if kind == "list":
        existing = found.get("member", {}) if isinstance(found, dict) else {}
        return [_value(shape.member, existing[number]) for number in sorted(existing, key=_number)]
    if kind == "map" and isinstance(found, dict):
        entries = found.get("entry", {}).values()
        return {entry.get("key", ""): _value(shape.value, entry.get("value", "")) for entry in entries}
    return _scalar(kind, found)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _scalar(kind: str, found: Any) -> Any:
    try:
        if kind in _NUMBERS:
            return _NUMBERS[kind](found)
        if kind == "boolean":
            return {"true": True, "false": False}[found]
        if kind == "timestamp":
            return datetime.fromisoformat(found.replace("Z", "+00:00")).timestamp()
        return found
    except (KeyError, TypeError, ValueError) as exc:
        raise ApiError("MalformedInput", f"{found!r} is not of type {kind}") from exc


def answered(operation: Any, result: Mapping[str, Any], request_id: str) -> bytes:
    """`result` in the envelope of an operation."""
    shape = operation.output_shape
    name, space = operation.name, operation.service_model.metadata["xmlNamespace"]
    message = f"<{name}Result>{''.join(_xml(shape, result))}</{name}Result>" if shape is not None else ""
    meta = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
    return f'<{name}Response xmlns="{space}">{message}{meta}</{name}Response>'.encode()


def error_document(error: ApiError, request_id: str) -> bytes:
    message = f"<Type>Sender</Type><Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
    return (
        f"<ErrorResponse><Error>{message}</Error><RequestId>{request_id}</RequestId></ErrorResponse>".encode()
    )


def _xml(shape: Any, value: Any) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure":
        for name, member in shape.members.items():
            if value.get(name) is not None:
                yield f"<{name}>{''.join(_xml(member, value[name]))}</{name}>"
    elif kind == "list":
        for item in value:
            yield f"<member>{''.join(_xml(shape.member, item))}</member>"
    elif kind == "map":
        for key, item in value.items():
            message = "".join(_xml(shape.value, item))
            yield f"<entry><key>{escape(key)}</key><value>{message}</value></entry>"
    elif kind == "timestamp":
        moment = value if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)
        yield moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    else:
        yield escape(str(value).lower() if isinstance(value, bool) else str(value))
