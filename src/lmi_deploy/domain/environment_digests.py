"""Environment variables as recorded and shown: by a digest, so that a change is visible and the value is not.

`printf %s VALUE | sha256sum` starts with the same ten digits.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from lmi_deploy.domain.dataclass_json import dump

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{10}")


def value_digest(value: str) -> str:
    return f"sha256:{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def masked(value: str) -> str:
    """As it is recorded today: older records contain the values themselves."""
    return value if _DIGEST.fullmatch(value) else value_digest(value)


def action_fields(action: object) -> dict[str, Any]:
    """An action as JSON values, for records and for people's programs."""
    fields: dict[str, Any] = _without_values(dump(action))
    return fields


def _without_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _without_values(item) for key, item in value.items()}
    # An environment is a list of pairs; the serving environment of a BuildEnvironment is a name.
    if isinstance(pairs := fields.get("environment"), list):
        fields["environment"] = [[name, value_digest(str(text))] for name, text in pairs]
    return fields
