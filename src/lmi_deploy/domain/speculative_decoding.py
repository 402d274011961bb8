"""`speculative_config` of vLLM, as far as it names a draft model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.domain.json_option import json_option

SPECULATIVE_CONFIG: Final = "speculative_config"
_NO_DRAFT_MODEL: Final = ("eagle", "medusa", "mtp", "mlp", "ngram", "speculator")
"""vLLM recognises these methods by the model's name."""


def speculation_settings(options: Mapping[str, str]) -> dict[str, Any]:
    return json_option(options, SPECULATIVE_CONFIG)


def draft_model(options: Mapping[str, str]) -> str:
    """The separate model that speculative decoding asks for drafts; empty if there is none, or if that is unknown."""
    table = speculation_settings(options)
    name, method = table.get("model"), table.get("method")
    if (
        not isinstance(name, str)
        or method not in (None, "draft_model")
        or table.get("use_heterogeneous_vocab")
    ):
        return ""
    return "" if any(word in name.lower() for word in _NO_DRAFT_MODEL) else name
