"""`python -m lmi_deploy.server`: parse the command line, serve, exit."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from lmi_deploy.server.composition import Options
from lmi_deploy.server.log import DjlLog, Log
from lmi_deploy.server.models.registration_request import name_of
from lmi_deploy.server.program import Program


def main() -> int:
    given = _arguments()
    log = DjlLog() if given.log_format == "djl" else Log()
    return asyncio.run(Program(_options(given), os.environ.copy(), log).run())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lmi_deploy.server", description="Serve one model folder."
    )
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--engine-dir", type=Path, required=True, help="folder of djl_python_engine.py")
    parser.add_argument("--python", type=Path, required=True, help="interpreter of the workers")
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="private folder for sockets and failure.json"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--model-name", default="", help="default: the folder's name, as in DJLServing")
    parser.add_argument("--config", type=Path, help="config.properties of the server")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--foreground", action="store_true", help="end when the parent process ends")
    parser.add_argument(
        "--management",
        choices=["http", "control"],
        default="http",
        help="who may register models: every client, as in DJLServing, or only the control socket in --run-dir",
    )
    parser.add_argument("--drain-seconds", type=float, default=60.0)
    parser.add_argument(
        "--log-format", choices=["lmi", "djl"], default="lmi", help="djl: the lines of DJLServing"
    )
    return parser.parse_args()


def _options(given: argparse.Namespace) -> Options:
    return Options(
        model_dir=given.model_dir.resolve(),
        engine_dir=given.engine_dir.resolve(),
        python=given.python.absolute(),  # not resolved: a venv's python is a link, which makes it a venv
        run_dir=given.run_dir.resolve(),
        host=given.host,
        port=given.port,
        model_name=given.model_name or name_of(given.model_dir.resolve()),
        config=given.config,
        labels=dict(label.partition("=")[::2] for label in given.label),
        drain_seconds=given.drain_seconds,
        foreground=given.foreground,
        managed_by_clients=given.management == "http",
    )


if __name__ == "__main__":
    sys.exit(main())
