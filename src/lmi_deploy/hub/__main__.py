"""`python -m lmi_deploy.hub`: started by `lmi hub serve`, which has checked the command line."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import LmiError
from lmi_deploy.hub.program import HubOutput, HubServerSettings, run

TOKEN_VARIABLE = "LMI_HUB_TOKEN"


def settings_of(argv: Sequence[str] | None, environ: Mapping[str, str]) -> HubServerSettings:
    parser = argparse.ArgumentParser(prog="lmi hub serve", description="A Hub over a folder of models.")
    add = parser.add_argument
    add("root", type=Path)
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8090)
    add("--hashes", type=Path)
    add("--parent-pid", type=int)
    add("--json", action="store_true")
    given = parser.parse_args(argv)
    token = environ.get(TOKEN_VARIABLE)
    return HubServerSettings(
        root=given.root,
        host=given.host,
        port=given.port,
        token=Secret(token) if token else None,
        hashes=given.hashes,
        as_json=given.json,
        parent=given.parent_pid,
    )


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(argv, os.environ)
    output = HubOutput(as_json=settings.as_json)
    try:
        mirror = asyncio.run(run(settings, output))
    except LmiError as error:
        _report_failure(error, output)
        return error.exit_code
    if output.as_json:
        sent = {"files_sent": mirror.files_sent, "bytes_sent": mirror.bytes_sent}
        output.event("result", {"ok": True, "exit_code": 0, **sent})
    return 0


def _report_failure(error: LmiError, output: HubOutput) -> None:
    if output.as_json:
        description = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        fields = {"kind": type(error).__name__, "exit_code": error.exit_code, **description}
        output.event("result", {"ok": False, "error": fields})
    else:
        sys.stderr.write(f"error: {error.message}\n  next: {error.hint}\n")


if __name__ == "__main__":
    sys.exit(main())
