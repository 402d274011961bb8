"""`python -m lmi_deploy.proxy`: started by `lmi proxy`, which has found the deployments and read the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence

from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import LmiError
from lmi_deploy.proxy.composition import ProxySettings
from lmi_deploy.proxy.program import ProxyOutput, run


def settings_of(argv: Sequence[str] | None, environ: Mapping[str, str]) -> ProxySettings:
    parser = argparse.ArgumentParser(prog="lmi proxy", description="OpenAI's API in front of deployments.")
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000)
    add("--deployment", action="append", metavar="JSON", help="one of those to serve; all if not given")
    add("--concurrency", type=int, default=256)
    add("--queue", type=int, default=1024)
    add("--timeout", type=float, default=300.0)
    add("--drain-seconds", type=float, default=30.0)
    add("--parent-pid", type=int)
    add("--json", action="store_true")
    given = parser.parse_args(argv)
    key = environ.get(PROXY_KEY_VARIABLE)
    refs = (
        None if given.deployment is None else tuple(DeploymentRef(**json.loads(x)) for x in given.deployment)
    )
    return ProxySettings(
        host=given.host,
        port=given.port,
        refs=refs,
        key=Secret(key or secrets.token_urlsafe(24)),
        key_is_generated=not key,
        concurrency=given.concurrency,
        queue=given.queue,
        timeout=given.timeout,
        drain_seconds=given.drain_seconds,
        as_json=given.json,
        parent=given.parent_pid,
    )


def main(argv: Sequence[str] | None = None) -> int:
    settings = settings_of(argv, os.environ)
    output = ProxyOutput(as_json=settings.as_json)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(run(settings, os.environ, output))
    except LmiError as error:
        _report_failure(error, output, as_json=settings.as_json)
        return error.exit_code
    if settings.as_json:
        output.write_event("result", {"ok": True, "exit_code": 0})
    return 0


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a third of the time of asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _report_failure(error: LmiError, output: ProxyOutput, *, as_json: bool) -> None:
    if as_json:
        description = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        fields = {"kind": type(error).__name__, "exit_code": error.exit_code, **description}
        output.write_event("result", {"ok": False, "error": fields})
    else:
        sys.stderr.write(f"error: {error.message}\n" + (f"  next: {error.hint}\n" if error.hint else ""))


if __name__ == "__main__":
    sys.exit(main())
