"""The health of a model server over HTTP; of a DJLServing also its model, and how many requests wait for it."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

MODEL_NAME = "model"
"""As on SageMaker, where the folder /opt/ml/model gives the model its name."""
_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    phase: Literal["starting", "loading", "ready", "failed"]
    message: str = ""
    in_flight: int = 0
    folder: str = ""
    """The model's, as the server names it; empty if it does not report it."""


def health(host: str, port: int) -> Health:
    """`starting` while the port is closed: the server binds its port only when its models are loaded."""
    response = _get(host, port, "/ping")
    if response is None:
        return Health(phase="starting")
    status, fields = response
    if status == 500:
        return Health(phase="failed", message=f"/ping answers 500: {_short(fields)}")
    if not isinstance(fields, dict) or not fields:
        return Health(phase="failed", message=f"/ping answers {status} without a model: no model was loaded")
    words = {str(model.get("status")) if isinstance(model, dict) else str(model) for model in fields.values()}
    if status == 200 and words != {"Healthy"}:
        return Health(phase="loading", message=_short(fields))
    # 503: too many of its responses were errors. It still serves.
    message = "" if status == 200 else f"/ping answers {status}: {_short(fields)}"
    # Empty if management has a separate address.
    described = _get(host, port, f"/models/{MODEL_NAME}")
    model = described[1] if described else None
    model = model[0] if isinstance(model, list) and model else model
    model = model if isinstance(model, dict) else {}
    queued, url = model.get("requestInQueue"), str(model.get("modelUrl") or "")
    return Health(
        phase="ready",
        message=message,
        in_flight=queued if isinstance(queued, int) else 0,
        folder=unquote(urlsplit(url).path).rstrip("/"),
    )


def health_by_status(host: str, port: int, path: str) -> Health:
    """As SageMaker does it: healthy when `path` answers 200; any other status means not yet."""
    response = _get(host, port, path)
    if response is None:
        return Health(phase="starting")
    status, body = response
    if status == 200:
        return Health(phase="ready")
    return Health(phase="loading", message=f"{path} answers {status}: {_short(body)}")


def _get(host: str, port: int, path: str) -> tuple[int, Any] | None:
    link = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        link.request("GET", path)
        response = link.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        link.close()
    try:
        return response.status, json.loads(body)
    except ValueError:
        return response.status, body.decode("utf-8", "replace")


def _short(fields: Any) -> str:
    return (fields if isinstance(fields, str) else json.dumps(fields))[:200]
