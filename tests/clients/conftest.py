"""Deployments of tiny models on this machine, behind one `lmi proxy`, for other people's client libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE
from tests.support.acting_handler import ACTING
from tests.support.clients import openai_clients
from tests.support.proxy_process import RunningProxy, proxy, write_record
from tests.support.running_server import serving, write_model
from tests.support.sample_model import cached_tiny, cached_tiny_model
from tests.support.serving_environment import serving_python

HERE = Path(__file__).parent
PROGRAM_SECONDS = 180
KEY = {PROXY_KEY_VARIABLE: "none"}
VLLM = {"engine": "vllm", "handler": "djl_python.lmi_vllm.vllm_async_service", "template": ""}
Cases = Callable[..., dict[str, Any]]


def run_lmi(*arguments: str, environ: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """`lmi` as a program; it has to work."""
    command = [sys.executable, "-m", "lmi_deploy", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environ}, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_client(*command: str | Path, cwd: Path) -> str:
    """stdout of a program of the clients' environment, which has to work."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        env={**environ, **KEY, "HOME": str(cwd), "HF_HUB_OFFLINE": "1"},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def openai_cases(url: str, model: str, *cases: str, cwd: Path) -> dict[str, Any]:
    """What OpenAI's client library got, by case."""
    program = [openai_clients() / "python", HERE / "with_openai.py", f"{url}/v1", model, *cases]
    found = [json.loads(line) for line in run_client(*program, cwd=cwd).splitlines()]
    return {line.pop("case"): line.get("result", line) for line in found}


@dataclass(frozen=True)
class Deployed:
    """`tiny` and `vectors` by `lmi up`, with handlers of lmi; `acting` and `dying` by their records, with a handler of
    the tests. When the worker of `dying` has ended, that server answers 400, as DJLServing does.
    """

    home: Path
    printed: str
    """What `lmi up` printed for `tiny`."""


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("home")
    environ = {"LMI_STATE_HOME": str(home / "state")}
    models = {
        "tiny": ("text-generation", cached_tiny_model(serving_python())),
        "vectors": ("text-embedding", cached_tiny(serving_python(), "text-embedding")),
    }
    printed = {}
    try:
        for name, (task, folder) in models.items():
            recipe = f"name: {name}\nmodel_id: {folder}\nengine: accelerate\ntask: {task}\n"
            (home / f"{name}.yaml").write_text(f"{recipe}endpoint: {{target: local}}\n")
            # The tiny model's answer to the probe may be blanks.
            up = ("up", "--yes", "--no-probe", f"{name}.yaml")
            printed[name] = run_lmi(*up, environ=environ, cwd=home).stderr
        handler = ACTING.replace("FILE", str(home / "go-on"))
        properties = "engine=Python\nminWorkers=1\nmaxWorkers=1\nretry_threshold=50\n"
        model = write_model(home / "model", handler, properties)
        with serving(model) as acting, serving(model) as dying:
            write_record(home, "acting", acting.port, **VLLM)
            write_record(home, "dying", dying.port, **VLLM)
            yield Deployed(home, printed["tiny"])
    finally:
        for name in printed:
            run_lmi("down", name, "--yes", environ=environ, cwd=home)


@pytest.fixture(scope="session")
def through(deployed: Deployed) -> Iterator[RunningProxy]:
    """The proxy of all of them, with the key that the programs send."""
    with proxy(deployed.home, environ=KEY) as running:
        yield running


@pytest.fixture(scope="session")
def url(through: RunningProxy) -> str:
    return str(through.ready["url"])
