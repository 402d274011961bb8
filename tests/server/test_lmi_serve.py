"""`lmi serve DIR --runtime embedded --port N --config FILE`: recordings of DJLServing, replayed against it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.test_recordings import RECORDINGS, validate
from tests.support.listening_program import PortListener, listening
from tests.support.recording import load
from tests.support.replay import Replay
from tests.support.running_server import worker_python

pytestmark = pytest.mark.worker

LMI = "import sys; from lmi_deploy.cli import main; sys.exit(main())"


@contextmanager
def commanded(folder: Path, *arguments: str, environ: Mapping[str, str]) -> Iterator[PortListener]:
    """Takes the same arguments as the server itself."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    messages = ("--port", given["--port"], "--config", given["--config"], "--python", worker_python())
    argv = [
        sys.executable,
        "-c",
        LMI,
        "serve",
        str(folder),
        "--runtime",
        "embedded",
        *messages,
        "--management",
    ]
    log, port = folder.parent / "lmi.log", int(given["--port"])
    with listening(argv, port=port, run_dir=folder, log=log, environ=environ) as running:
        yield running


@pytest.mark.parametrize(
    "name",
    [
        "s37_init_returns_output_with_body",
        "s63_engine_bad",
        "s70_management",
        "s71_separate_management_port",
        "s73_empty_store",
        "s77_sigkill",
        "s77_sigterm",
        "s107_query_data_shadows_body",
        "s110_one_of_two_models_fails",
    ],
)
def test_recording_is_answered_equally(name: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lmi-rec-", dir="/tmp"))
    try:
        replay = Replay(load(RECORDINGS / f"{name}.json"), folder, RECORDINGS / "handlers", commanded)
        assert validate(name, replay.differences()) == []
    finally:
        shutil.rmtree(folder)
