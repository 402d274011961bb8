"""Numbers and durations as values of keys."""

from __future__ import annotations

import re

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.recipe_key_types import Integer, Limited, Number, Seconds
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.recipe.model.scalar_type import InvalidValue, ScalarType, Schema
from lmi_deploy.recipe.yaml.tree import quoted

_DIGITS = re.compile(r"0|[1-9][0-9]{0,17}")
_FRACTION = re.compile(r"(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def number_type(rule: Integer | Number | Seconds | Limited) -> ScalarType:
    match rule:
        case Integer(low, high):
            return ScalarType(
                f"whole number, {low} to {high}",
                lambda text: _integer(text, low, high),
                lambda: {"type": "integer", "minimum": low, "maximum": high},
            )
        case Number(least, most):
            return ScalarType(
                f"number, {least:g} to {most:g}",
                lambda text: _fraction(text, least, most),
                lambda: {"type": "number", "minimum": least, "maximum": most},
            )
        case Seconds(low, high):
            number = {"type": "integer", "minimum": low, "maximum": high}
            schema = {"anyOf": [number, {"pattern": f"^{_DURATION.pattern}$"}]}
            return ScalarType(
                f"duration (`3600`, `90m`, `8h`, `2d`), {low} to {high} seconds",
                lambda text: _duration(text, low, high),
                lambda: schema,
            )
        case Limited(limit, "seconds"):
            return ScalarType(
                "duration (`600`, `10m`), within SageMaker's limits",
                lambda text: _duration(text, *sagemaker_limits.bounds(limit)),
                lambda: _limit_schema(limit),
            )
        case Limited(limit, unit):
            return ScalarType(
                f"whole number of {unit}, within SageMaker's limits",
                lambda text: _integer(text, *sagemaker_limits.bounds(limit)),
                lambda: _limit_schema(limit),
            )


def decimal(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None


def _integer(text: str, low: int, high: int) -> int:
    number = decimal(text)
    if number is None:
        digits = text.isascii() and text.isdigit()
        hint = (
            "remove the leading zero: other programs read it as an octal number"
            if digits
            else "use only decimal digits"
        )
        raise InvalidValue(f"{quoted(text)} is not a whole number from {low} to {high}", hint)
    if not low <= number <= high:
        raise InvalidValue(f"{number} is out of range", f"use {low} to {high}")
    return number


def _fraction(text: str, low: float, high: float) -> float:
    if not _FRACTION.fullmatch(text):
        raise InvalidValue(f"{quoted(text)} is not a number", "write for example 0.5")
    if not low <= float(text) <= high:
        raise InvalidValue(f"{text} is out of range", f"use {low:g} to {high:g}")
    return float(text)


def _duration(text: str, low: int, high: int) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{quoted(text)} is not a duration", "write 3600, 90m, 8h or 2d")
    number = int(match[1]) * _UNITS[match[2]]
    if not low <= number <= high:
        given = text if match[2] else f"{number} seconds"
        raise InvalidValue(f"{given} is out of range", f"use {duration_text(low)} to {duration_text(high)}")
    return number


def _limit_schema(limit: str) -> Schema:
    low, high = sagemaker_limits.bounds(limit)
    return {"type": "integer", "minimum": low, "maximum": high}
