"""An engine's option whose value is a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def json_option(options: Mapping[str, str], name: str) -> dict[str, Any]:
    """Empty if it is not given, or no JSON object, which a check of the recipe reports."""
    try:
        found = json.loads(options.get(name, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
