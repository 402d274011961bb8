"""The server's own settings: config.properties with SERVING_* of the environment over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.server.http.request_reader import USUAL_LIMITS, TimeLimits
from lmi_deploy.server.models.property_values import integer, java_properties, parse_bool
from lmi_deploy.server.workers.djl_protocol import LARGEST_BLOB, Pair

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of config.properties; `keys` holds all of them, for those that are looked up by name."""

    keys: Mapping[str, str] = field(repr=False)
    management_host: str | None = None
    """Of management's own port, None if there is no such port; empty: that of inference."""
    wait_model_loading: bool = True
    allow_multi_status: bool = False
    handler_may_be_named: bool = False
    fail_fast: bool = False
    max_request_size: int = 64 * MEBIBYTE
    chunked_read_timeout: float = 120.0
    time_limits: TimeLimits = USUAL_LIMITS
    request_id_key: str = "x-request-id"
    largest_blob: int = LARGEST_BLOB
    cors: tuple[Pair, ...] = ()
    metrics: bool = False
    tcp_workers: bool = False
    log_level: str = "info"


def read_settings(config: Path | None, environ: Mapping[str, str]) -> ServerSettings:
    """`InvalidSettings` for a value of the wrong type."""
    keys = parse_properties(config.read_bytes()) if config is not None else {}
    keys |= {k.removeprefix("SERVING_").lower(): v for k, v in environ.items() if k.startswith("SERVING_")}
    java = java_properties(environ)
    inference, management = (
        urlsplit(keys.get(f"{what}_address", "")) for what in ("inference", "management")
    )
    apart = inference.port and management.port and inference.port != management.port
    cors = ((name, keys.get(f"cors_allowed_{name}", "")) for name in ("origin", "methods", "headers"))
    return ServerSettings(
        keys=keys,
        management_host=(management.hostname or "") if apart else None,
        wait_model_loading=parse_bool(keys.get("wait_model_loading", "true")),
        allow_multi_status=parse_bool(keys.get("allow_multi_status", "")),
        handler_may_be_named=parse_bool(environ.get("ALLOW_REQUEST_HANDLER_OVERRIDE", "")),
        fail_fast=parse_bool(environ.get("SERVING_FAIL_FAST", "")),
        max_request_size=_largest_request(keys, environ),
        chunked_read_timeout=_number(keys, "chunked_read_timeout", 120),
        request_id_key=keys.get("request_id_header_key", "x-request-id"),
        largest_blob=_number(environ, "MAX_NETTY_BUFFER_SIZE", LARGEST_BLOB),
        cors=tuple((f"access-control-allow-{name}", value) for name, value in cors if value),
        metrics=parse_bool(environ.get("SERVING_PROMETHEUS", java.get("SERVING_PROMETHEUS", ""))),
        tcp_workers=parse_bool(java.get("io.netty.transport.noNative", "")),
        log_level="debug" if java.get("ai.djl.logging.level", "").lower() == "debug" else "info",
    )


def _largest_request(keys: Mapping[str, str], environ: Mapping[str, str]) -> int:
    if "SAGEMAKER_MAX_REQUEST_SIZE" in environ:
        return _number(environ, "SAGEMAKER_MAX_REQUEST_SIZE", 0)
    if "SAGEMAKER_MAX_PAYLOAD_IN_MB" in environ:
        return _number(environ, "SAGEMAKER_MAX_PAYLOAD_IN_MB", 0) * MEBIBYTE
    return _number(keys, "max_request_size", 64 * MEBIBYTE)


def _number(keys: Mapping[str, str], key: str, usual: int) -> int:
    return integer(key, keys[key]) if key in keys else usual
