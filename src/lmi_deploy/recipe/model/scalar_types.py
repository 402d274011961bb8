"""Convert one written value to a typed one: a ScalarType parses text, and describes its values in words and JSON
Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmi_deploy.catalog import limits
from lmi_deploy.domain.naming import MAX_NAME, NAME, name_error
from lmi_deploy.recipe.suggestions import suggestion_text
from lmi_deploy.recipe.yaml.tree import quoted

_DIGITS = re.compile(r"0|[1-9][0-9]{0,17}")
_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_HUB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", re.DOTALL)
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
Schema = dict[str, Any]
NUMERIC_TEXT: Schema = {"type": ["string", "number", "boolean"]}
"""Text that an editor may read as a number; here it stays text."""


class InvalidValue(Exception):
    """A value that a ScalarType does not accept."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(frozen=True, slots=True)
class ScalarType:
    """Reads one scalar. `schema` is a function so that no table is loaded before it is needed."""

    label: str
    read: Callable[[str], Any]
    schema: Callable[[], Schema] = field(default=lambda: {"type": "string"})


def line(label: str = "text") -> ScalarType:
    """Text on one line, not blank, that may look like a number."""
    return ScalarType(label, _line, lambda: NUMERIC_TEXT)


def free_text(label: str = "text, one or more lines") -> ScalarType:
    """Any text."""
    return ScalarType(label, lambda text: text, lambda: NUMERIC_TEXT)


def integer(low: int, high: int) -> ScalarType:
    """A whole number in decimal digits."""
    return ScalarType(
        f"whole number, {low} to {high}",
        lambda text: _within(text, low, high),
        lambda: {"type": "integer", "minimum": low, "maximum": high},
    )


def bounded(key: str, unit: str) -> ScalarType:
    """A whole number within SageMaker's own bounds."""
    return ScalarType(
        f"whole number of {unit}, within SageMaker's limits", lambda t: _bounded(t, key), lambda: _span(key)
    )


def seconds(low: int, high: int) -> ScalarType:
    """A duration in seconds: `3600`, `90m`, `8h`, `2d`."""
    schema = {
        "anyOf": [{"type": "integer", "minimum": low, "maximum": high}, {"pattern": f"^{_DURATION.pattern}$"}]
    }
    return ScalarType(
        f"duration (`3600`, `90m`, `8h`, `2d`), {low} to {high} seconds", _duration(low, high), lambda: schema
    )


def bounded_seconds(key: str) -> ScalarType:
    """A duration within SageMaker's own bounds."""
    return ScalarType(
        "duration (`600`, `10m`), within SageMaker's limits",
        lambda t: _read_bounded_seconds(t, key),
        lambda: _span(key),
    )


def choice(*values: str) -> ScalarType:
    """One of a few words."""
    return ScalarType(
        "one of " + ", ".join(f"`{v}`" for v in values),
        lambda t: _one_of(t, values),
        lambda: {"enum": [*values]},
    )


def enum_of(table: str, what: str) -> ScalarType:
    """A name that SageMaker's own model lists."""
    return ScalarType(what, lambda t: _read_enum(t, table, what), lambda: {"enum": [*limits.names(table)]})


def enum_or_auto(table: str, what: str) -> ScalarType:
    """The same, or `auto`."""
    return ScalarType(
        f"{what}, or `auto`",
        lambda text: text if text == "auto" else _read_enum(text, table, what),
        lambda: {"enum": ["auto", *limits.names(table)]},
    )


def matching_rule(kind: str, what: str) -> ScalarType:
    """Text that SageMaker's own model has a rule for."""
    return ScalarType(what, lambda t: _read_matching_rule(t, kind, what))


FLAG = ScalarType("`true` or `false`", lambda text: _flag(text), lambda: {"type": "boolean"})


def degree() -> ScalarType:
    """A positive whole number, or `auto` (None)."""
    return ScalarType(
        "whole number, or `auto`",
        _degree,
        lambda: {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]},
    )


def deployment_name() -> ScalarType:
    """A name that can be a deployment's."""
    schema = {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": MAX_NAME}
    return ScalarType(
        f"lower case letters, digits and single dashes, at most {MAX_NAME}", _name, lambda: schema
    )


def model_id() -> ScalarType:
    """A Hub id, an s3:// prefix, or a folder."""
    return ScalarType("Hub id, `s3://` prefix, or folder (`./…`, `/…`, `~/…`)", _model_id)


def revision() -> ScalarType:
    """A branch, a tag or a commit of the Hub."""
    return ScalarType("branch, tag or commit", _revision, lambda: NUMERIC_TEXT)


def relative_path(suffix: str) -> ScalarType:
    """A file beside the recipe."""
    return ScalarType(f"path of a {suffix} file, relative to the recipe", lambda t: _path(t, suffix))


def module() -> ScalarType:
    """A Python module's dotted name."""
    return ScalarType("dotted name of a module of DJL's Python engine", _module)


def _line(text: str) -> str:
    if not text.strip():
        raise InvalidValue("is empty", "remove the key, or give it a value")
    if not all(char.isprintable() or char == "\u00a0" for char in text):
        raise InvalidValue(
            f"{quoted(text)} has a line break or an unprintable character", "write one line of text"
        )
    return text


def _read_integer(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None


def _within(text: str, low: int, high: int) -> int:
    number = _read_integer(text)
    if number is None:
        digits = text.isascii() and text.isdigit()
        hint = (
            "remove the leading zero: other programs read it as an octal number"
            if digits
            else "use only decimal digits"
        )
        raise InvalidValue(f"{quoted(text)} is not a whole number from {low} to {high}", hint)
    if not low <= number <= high:
        raise InvalidValue(f"{number} is out of range", f"from {low} to {high}")
    return number


def _bounded(text: str, key: str) -> int:
    return _within(text, *limits.bounds(key))


def _span(key: str) -> Schema:
    low, high = limits.bounds(key)
    return {"type": "integer", "minimum": low, "maximum": high}


def _duration(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        match = _DURATION.fullmatch(text)
        if match is None:
            raise InvalidValue(f"{quoted(text)} is not a duration", "write 3600, 90m, 8h or 2d")
        number = int(match[1]) * _UNITS[match[2]]
        if not low <= number <= high:
            raise InvalidValue(f"{number} seconds is out of range", f"from {low} to {high} seconds")
        return number

    return read


def _read_bounded_seconds(text: str, key: str) -> int:
    low, high = limits.bounds(key)
    return _duration(low, high)(text)


def _one_of(text: str, values: Sequence[str]) -> str:
    if text in values:
        return text
    raise InvalidValue(f"{quoted(text)} is not one of {', '.join(values)}", suggestion_text(text, values))


def _read_enum(text: str, table: str, what: str) -> str:
    known = limits.names(table)
    if text in known:
        return text
    missing_ml = f"ml.{text}" if f"ml.{text}" in known else ""
    hint = f"did you mean {missing_ml}?" if missing_ml else suggestion_text(text, known)
    raise InvalidValue(f"{quoted(text)}: SageMaker has no such {what}", hint)


def _read_matching_rule(text: str, kind: str, what: str) -> str:
    error = limits.text_error(kind, text)
    if error:
        raise InvalidValue(f"{quoted(text)} is not a valid {what}: {error}")
    return text


def _flag(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    yes = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
    suggestion = yes.get(text.lower(), text.lower())
    hint = f"did you mean {suggestion}?" if suggestion in ("true", "false") else ""
    raise InvalidValue(f"{quoted(text)} is neither true nor false", hint)


def _degree(text: str) -> int | None:
    if text == "auto":
        return None
    number = _read_integer(text)
    if number is None or not 1 <= number <= 1024:
        raise InvalidValue(f"{quoted(text)} is neither a positive whole number nor auto")
    return number


def _name(text: str) -> str:
    error = name_error(text)
    if error:
        raise InvalidValue(f"{quoted(text)} is not a valid deployment name: {error}")
    return text


def _model_id(text: str) -> str:
    _line(text)
    if text.startswith(("./", "../", "/", "~/")) or text in (".", ".."):
        return text
    if text.startswith("s3://"):
        if _S3.fullmatch(text):
            return text
        raise InvalidValue(f"{quoted(text)} is not an S3 prefix", "write s3://bucket/prefix")
    if _HUB_ID.fullmatch(text) and ".." not in text and "--" not in text:
        return text
    hint = "write owner/name for the Hub, or a folder that starts with ./ or /"
    raise InvalidValue(f"{quoted(text)} is neither a Hub id, an s3:// prefix nor a folder", hint)


def _revision(text: str) -> str:
    if len(text) > 200 or not _REVISION.fullmatch(text) or ".." in text:
        raise InvalidValue(f"{quoted(text)} is not a valid branch, tag or commit")
    return text


def _path(text: str, suffix: str) -> str:
    _line(text)
    if not text.endswith(suffix):
        raise InvalidValue(f"{quoted(text)} is not a {suffix} file")
    return text


def _module(text: str) -> str:
    if len(text) > 200 or not re.fullmatch(r"djl_python(\.[A-Za-z_][A-Za-z0-9_]*)+", text):
        raise InvalidValue(
            f"{quoted(text)} is not a module of djl_python",
            "such as djl_python.huggingface; your own model.py goes under handler.file",
        )
    return text
