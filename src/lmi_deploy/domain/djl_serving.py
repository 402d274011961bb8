"""Names and versions of DJLServing: the files of a model folder, and the server that lmi knows."""

from __future__ import annotations

from typing import Final

SERVING_PROPERTIES: Final = "serving.properties"
MODEL_PY: Final = "model.py"
REQUIREMENTS_TXT: Final = "requirements.txt"
ADAPTERS_FOLDER: Final = "adapters"
"""In the model folder: the server registers each folder in it as a LoRA adapter of that name when it loads the model
(DJLServing, serving/docs/adapters_api.md).
"""
IMAGE_FAMILY: Final = "djl-lmi"
"""AWS's images of DJLServing with LMI's packages."""
SERVER_VERSION: Final = "0.36.0"
"""Whose responses were recorded, and whose handlers are checked."""
NO_REASON: Final = "service.invoke_handler_async() failure"
"""The whole message of DJL's asynchronous service if its own handling of an error fails."""
USUAL_REASON: Final = (
    "DJL's service gives no reason; the usual one is that prompt and max_tokens together exceed max_model_len"
)
"""Seen with DJL's engine 0.34.0 and vLLM 0.10.2, 2026-11-22."""
ENGINE_VERSION: Final = "0.34.0"
"""DJL's Python engine on Maven Central: the newest published there, on the wire the same as 0.36 (2026-11-21)."""


def usual_reason(*texts: str) -> str:
    """The usual reason of an error that DJL's service gives none for; empty for any other error."""
    return USUAL_REASON if any(NO_REASON in text for text in texts) else ""
