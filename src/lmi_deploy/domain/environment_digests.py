"""Environment variables as recorded and shown: by a digest, so that a change is visible and the value is not.

`printf %s VALUE | sha256sum` starts with the same ten digits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.recipe import Pairs

PREFIX: Final = "environment."
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{10}")


def value_digest(value: str) -> str:
    return f"sha256:{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def environment_summary(environment: Pairs) -> dict[str, str]:
    """The part of a generation's summary about the variables of its container."""
    return {f"{PREFIX}{name}": value_digest(value) for name, value in environment}


def without_values(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary as it is recorded today: older records contain the values themselves."""
    return {
        key: value_digest(str(value))
        if key.startswith(PREFIX) and not _DIGEST.fullmatch(str(value))
        else value
        for key, value in summary.items()
    }


def action_fields(action: object) -> dict[str, Any]:
    """An action as JSON values, for records and for people's programs."""
    fields: dict[str, Any] = _masked(dump(action))
    return fields


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    masked = {key: _masked(item) for key, item in value.items()}
    # An environment is a list of pairs; the serving environment of a BuildEnvironment is a name.
    if isinstance(pairs := masked.get("environment"), list):
        masked["environment"] = [[name, value_digest(str(text))] for name, text in pairs]
    return masked
