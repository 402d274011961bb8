"""Refuse fault rules that can never match when they are set: otherwise every client would seem to survive them.

`parse_rules` checks the rules of every server; this module checks what only the emulator knows: its operations, its
phases, whether it has a byte proxy.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from lmi_deploy.emulator.faults.rules import FaultRule
from lmi_deploy.emulator.wire.operation_dispatch import TARGETS
from lmi_deploy.emulator.wire.service_models import service_model

HTTP: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
PHASES: Final = {
    "HOSTING": ("provision", "download", "start", "logs", "invoke", "stream", "rollback"),
    "PROCESSING": ("provision", "download", "start"),
    "OPTIMIZATION": ("provision", "run"),
}
BYTES: Final = "BYTES"
TARGET: Final = "x-amz-target"
_OTHER_SERVICES: Final = ("secretsmanager", "kms", "ssm", "ecr")
"""Services of moto whose operations are also named by a header."""
_FIRST: Final = re.compile(r"\^/?([A-Za-z_]+)/")


@dataclass(frozen=True, slots=True)
class FaultSupport:
    """`has_proxy`: connections pass through the byte proxy; `has_s3`: there is one in front of an outside S3 server,
    too.
    """

    has_proxy: bool
    has_s3: bool

    def why_never(self, rule: FaultRule) -> str:
        """Empty if the rule can match something."""
        return next(self._reasons(rule), "")

    def _reasons(self, rule: FaultRule) -> Iterator[str]:
        method = rule.method.upper()
        known = (*HTTP, *PHASES, BYTES)
        if method and method not in known:
            local = difflib.get_close_matches(method, known, 1)
            yield f"method {rule.method}: {f'did you mean {local[0]}?' if local else 'known: ' + ', '.join(known)}"
        if method == BYTES:
            yield from self._of_bytes(rule)
        elif method in PHASES:
            yield from _of_phases(method, rule)
        else:
            if method and re.match(r"\^[A-Za-z0-9]", rule.path):
                yield f"path {rule.path}: paths begin with /"
            yield from _of_headers(rule)

    def _of_bytes(self, rule: FaultRule) -> Iterator[str]:
        if not self.has_proxy:
            yield "method BYTES works only with --proxy"
            return
        paths = [
            f"/{way}/{name}"
            for name in (("aws", "s3") if self.has_s3 else ("aws",))
            for way in ("up", "down")
        ]
        if not any(re.search(rule.path, path) for path in paths):
            yield f"path {rule.path}: the paths of connections are {', '.join(paths)}"
        if rule.headers:
            yield "headers: rules of method BYTES have no headers"


def _of_phases(method: str, rule: FaultRule) -> Iterator[str]:
    if rule.headers:
        yield f"headers: steps of the service ({method}) have no headers"
    first = _FIRST.match(rule.path)
    if first is not None and not any(
        re.search(rule.path[: first.end()], f"/{phase}/") for phase in PHASES[method]
    ):
        yield f"path {rule.path}: the phases of {method} are {', '.join(PHASES[method])}"


def _of_headers(rule: FaultRule) -> Iterator[str]:
    for name, pattern in rule.headers.items():
        if name.lower() == TARGET and not any(re.search(pattern, target) for target in targets()):
            names = [target.rpartition(".")[2] for target in targets()]
            local = difflib.get_close_matches(pattern.strip("^$\\.").rpartition(".")[2], names, 1)
            guess = f", did you mean {local[0]}?" if local else ""
            yield f"headers.{name}: {pattern}: no operation has this name{guess}"


@cache
def targets() -> tuple[str, ...]:
    """The values of X-Amz-Target, for every service that has it."""
    services = {**TARGETS, **{service_model(name).metadata["targetPrefix"]: name for name in _OTHER_SERVICES}}
    return tuple(
        f"{prefix}.{name}"
        for prefix, service in services.items()
        for name in service_model(service).operation_names
    )
