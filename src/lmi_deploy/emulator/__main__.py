"""`python -m lmi_deploy.emulator`: SageMaker on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lmi_deploy.emulator.program import Settings, run
from lmi_deploy.emulator.rule_files import load_rules
from lmi_deploy.emulator.wiring import without_containers, workshop
from lmi_deploy.errors import LmiError


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lmi emulator", description="SageMaker on this machine.")
    add = parser.add_argument
    add("--port", type=int, default=4566, help="of 127.0.0.1; 0: any free one (default: 4566)")
    add("--dir", type=Path, help="keep the state there, over restarts")
    add(
        "--speed",
        type=float,
        default=60.0,
        help="emulated seconds in a real one, while nothing is at work (60)",
    )
    add("--faults", type=Path, help="fault rules (docs/faults.md)")
    add("--s3", default="", metavar="URL", help="an S3 server in place of the built-in one")
    add(
        "--proxy",
        action="store_true",
        help="let clients come through a byte proxy, where rules of method BYTES strike",
    )
    add("--python", type=Path, help="the interpreter that handlers run in (the newest serving environment)")
    add("--engine-dir", type=Path, help="DJL's Python engine, unpacked (else fetched into the cache)")
    add("--no-containers", action="store_true", help="start no model servers; invocations are echoed")
    add("--enforce-iam", action="store_true", help="check every call against its caller's policies")
    add("--stop-after", type=float, metavar="SECONDS", help="end by itself after so many real seconds")
    add("--parent-pid", type=int, metavar="PID", help="end when this process does")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    given = arguments(argv)
    try:
        settings = Settings(
            port=given.port,
            folder=given.dir.resolve() if given.dir else None,
            speed=max(0.001, given.speed),
            s3=given.s3,
            proxy=given.proxy,
            rules=load_rules(given.faults) if given.faults else (),
            stop_after=given.stop_after,
            parent=given.parent_pid,
            enforce_iam=given.enforce_iam,
        )
        made = (
            without_containers()
            if given.no_containers
            else workshop(os.environ, python=given.python, engine=given.engine_dir, s3=given.s3)
        )
        asyncio.run(run(settings, made, os.environ))
    except LmiError as error:
        sys.stderr.write(f"error: {error.message}\n" + (f"  {error.hint}\n" if error.hint else ""))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
