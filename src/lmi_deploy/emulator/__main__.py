"""`python -m lmi_deploy.emulator`: SageMaker on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lmi_deploy.emulator.composition import Settings
from lmi_deploy.emulator.consistency_lag import parse_lag
from lmi_deploy.emulator.container_runtime import container_runtime, without_containers
from lmi_deploy.emulator.faults.rule_files import load_rules
from lmi_deploy.emulator.iam.keyring import VARIABLE, KeyPair, parse_key
from lmi_deploy.emulator.program import run, write_event
from lmi_deploy.errors import LmiError, UsageRefused

ENGINE: Final = "djl_python_engine.py"
HIGHEST_PORT: Final = 65535


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lmi emulator", description="SageMaker on this machine.")
    _add_program(parser)
    _add_services(parser)
    return parser.parse_args(argv)


def _add_program(parser: argparse.ArgumentParser) -> None:
    """How it listens, what it keeps, and when it stops."""
    add = parser.add_argument
    add("--port", type=int, default=4566, help="port on 127.0.0.1; 0: any free one (default: 4566)")
    add("--dir", type=Path, help="keep the state in this folder across restarts")
    add(
        "--key",
        metavar="ID:SECRET",
        help=f"the key that requests must be signed with (or the variable {VARIABLE})",
    )
    add(
        "--proxy",
        action="store_true",
        help="put a byte proxy in front, which applies the rules of method BYTES",
    )
    add("--stop-after", type=float, metavar="SECONDS", help="stop after this many real seconds")
    add("--parent-pid", type=int, metavar="PID", help="stop when this process ends")
    add("--json", action="store_true", help="print JSON Lines on stdout; the last line is the result")


def _add_services(parser: argparse.ArgumentParser) -> None:
    """How the services behave, and what runs their containers."""
    add = parser.add_argument
    add(
        "--speed",
        type=float,
        default=60.0,
        help="emulated seconds per real second, while nothing is running (60)",
    )
    add("--faults", type=Path, help="fault rules (`lmi docs fault-rules`)")
    add("--s3", default="", metavar="URL", help="an S3 server in place of the built-in one")
    add(
        "--registry",
        default="",
        metavar="URL",
        help="a registry program (OCI) behind ECR, for `container.build`",
    )
    add(
        "--python",
        type=Path,
        help="the Python interpreter that runs handlers (the newest serving environment)",
    )
    add("--engine-dir", type=Path, help="DJL's Python engine, unpacked; downloaded once if not given")
    add("--no-containers", action="store_true", help="start no model servers; an endpoint echoes the request")
    add("--enforce-iam", action="store_true", help="check each call against the policies of its caller")
    add(
        "--lag",
        default="0",
        help="delay reads, tags and roles: SECONDS, or tags=SECONDS,reads=SECONDS,roles=SECONDS (0)",
    )


def check_arguments(given: argparse.Namespace) -> None:
    """UsageRefused for settings that would fail only later, or never visibly."""
    python, engine, s3 = given.python, given.engine_dir, urlsplit(given.s3)
    if not 0 <= given.port <= HIGHEST_PORT:
        raise UsageRefused(
            f"--port {given.port}: not a number from 0 to {HIGHEST_PORT}", hint="use 0 for any free port"
        )
    if not given.speed > 0:
        raise UsageRefused(
            f"--speed {given.speed}: the speed must be more than 0",
            hint="use --speed 0.001 to nearly stop the clock, and POST /_clock to move it",
        )
    if given.s3 and not (s3.scheme in ("http", "https") and s3.netloc):
        raise UsageRefused(
            f"--s3 {given.s3}: not an address that begins with http:// or https://",
            hint="write for example --s3 http://127.0.0.1:9000",
        )
    registry = urlsplit(given.registry)
    if given.registry and not (registry.scheme in ("http", "https") and registry.netloc):
        raise UsageRefused(
            f"--registry {given.registry}: not an address that begins with http:// or https://",
            hint="write for example --registry http://127.0.0.1:5000",
        )
    parse_lag(given.lag)
    if python is not None and not (python.is_file() and os.access(python, os.X_OK)):
        raise UsageRefused(f"--python {python}: not an executable file", hint="name a Python interpreter")
    if engine is not None and not (engine / ENGINE).is_file():
        raise UsageRefused(
            f"--engine-dir {engine}: has no {ENGINE}",
            hint="omit --engine-dir: lmi then downloads the engine once",
        )


def settings_of(given: argparse.Namespace) -> Settings:
    return Settings(
        port=given.port,
        folder=given.dir.resolve() if given.dir else None,
        speed=given.speed,
        s3=given.s3,
        proxy=given.proxy,
        registry=given.registry.rstrip("/"),
        rules=load_rules(given.faults) if given.faults else (),
        as_json=given.json,
        stop_after=given.stop_after,
        parent=given.parent_pid,
        enforce_iam=given.enforce_iam,
        lag=parse_lag(given.lag),
        key=key_of(given.key, os.environ),
    )


def key_of(given: str | None, environ: Mapping[str, str]) -> KeyPair | None:
    if given is not None:
        return parse_key(given, "--key")
    text = environ.get(VARIABLE)
    return parse_key(text, VARIABLE) if text else None


def report_exit(error: LmiError | None, *, as_json: bool) -> None:
    if as_json and error is None:
        write_event("result", {"ok": True, "exit_code": 0})
    elif as_json and error is not None:
        description = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        fields = {"kind": type(error).__name__, "exit_code": error.exit_code, **description}
        write_event("result", {"ok": False, "error": fields})
    elif error is not None:
        sys.stderr.write(f"error: {error.message}\n" + (f"  next: {error.hint}\n" if error.hint else ""))


def main(argv: Sequence[str] | None = None) -> int:
    given = arguments(argv)
    try:
        check_arguments(given)
        created = (
            without_containers()
            if given.no_containers
            else container_runtime(
                os.environ,
                python=given.python,
                engine=given.engine_dir,
                s3=given.s3,
                registry=given.registry.rstrip("/"),
            )
        )
        asyncio.run(run(settings_of(given), created, os.environ))
    except LmiError as error:
        report_exit(error, as_json=given.json)
        return error.exit_code
    report_exit(None, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
