"""How a generation is scaled, as its record has it: in words for people, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.domain.sagemaker.settings import Scaling

SCALING: Final = "scaling"
"""Its name in a summary."""


def scaling_words(scaling: Scaling) -> str:
    return f"{scaling.least} to {scaling.most} instances, {scaling.invocations} invocations a minute each"


def scaling_of(summary: Mapping[str, Any]) -> Scaling | None:
    """The scaling of a generation, by its record: the text of `scaling_words`."""
    found = re.match(r"(\d+) to (\d+) instances, (\d+) invocations", str(summary.get(SCALING, "")))
    if found is None:
        return None
    least, most, invocations = map(int, found.groups())
    return Scaling(least=least, most=most, invocations=invocations)
