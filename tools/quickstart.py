"""`make quickstart [ENGINE=vllm]`: a real instruct model on this machine, asked once; it stays, and you are told what
to do next.

Where the Hub is out of reach, the same model is taken from a package and served by a local Hub server: from there on
the way is the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmi_deploy.composition.user_folders import cache_folder
from lmi_deploy.host.clock import SystemClock

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"accelerate": "quickstart", "vllm": "quickstart-vllm"}
"""The deployment of an engine, and its recipe in `recipes/`."""
RECIPE = f"recipes/{NAMES['accelerate']}.yaml"
MODEL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROMPT = "What is the capital of France?"
PUBLIC_HUB = "https://huggingface.co"
_TIMEOUT = 6.0
LMI = str(Path(sys.executable).with_name("lmi"))


def main(engine: str = "accelerate") -> int:
    """0 when the model has answered; 2 for another engine; else lmi's own exit code."""
    if engine not in NAMES:
        say(f"error: ENGINE={engine}: there is no quickstart for it\n  next: use one of {', '.join(NAMES)}")
        return 2
    name = NAMES[engine]
    endpoint = os.environ.get("HF_ENDPOINT") or PUBLIC_HUB
    if os.environ.get("HF_HUB_OFFLINE") or reachable(endpoint):
        return deploy_and_ask(name, dict(os.environ))
    say(f"{endpoint} is not reachable from here: {MODEL_ID} is taken from a package instead,")
    say(
        "and served by a local Hub server (94 MB to download, 274 MB on disk, about a minute the first time)."
    )
    with sample_hub() as address:
        code = deploy_and_ask(name, {**os.environ, "HF_ENDPOINT": address})
    if code == 0:
        say(
            "The local Hub server has ended. To plan or change this deployment later, put HF_HUB_OFFLINE=1 before"
        )
        say(f"the command (HF_HUB_OFFLINE=1 lmi plan {_recipe(name)}), or run `make quickstart` again.")
    return code


def deploy_and_ask(name: str, environment: dict[str, str]) -> int:
    """`lmi up`, then one chat answer, streamed."""
    # Without them vLLM draws at random, up to the model's whole context.
    settings = ["-p", "max_tokens=64", "-p", "temperature=0"] if name == NAMES["vllm"] else []
    for command in (
        [LMI, "up", "--yes", _recipe(name)],
        [LMI, "invoke", "--stream", *settings, name, PROMPT],
    ):
        say(f"$ lmi {' '.join(command[1:])}")
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code:
            return code
    say(f"{LMI} is the tool: put {Path(LMI).parent} on your PATH, or call it by this path.")
    return 0


def _recipe(name: str) -> str:
    return f"recipes/{name}.yaml"


def reachable(endpoint: str) -> bool:
    """Whether the model's page of the Hub's API answers; any answer of the Hub's own counts."""
    try:
        with urllib.request.urlopen(f"{endpoint}/api/models/{MODEL_ID}", timeout=_TIMEOUT):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def sample_hub() -> Iterator[str]:
    """A local Hub server with the real model; its address."""
    from tests.support.sample_model import sample_model
    from tests.support.serving_environment import serving_python

    models = cache_folder(os.environ) / "samples"
    if not (models / MODEL_ID).is_dir():
        sample_model(serving_python(tell=True), models / MODEL_ID, say)
    with local_hub(models) as address:
        yield address


@contextmanager
def local_hub(models: Path) -> Iterator[str]:
    """A local Hub server for the models in `models`; its address. It ends with the context, or with this process."""
    with tempfile.TemporaryDirectory() as scratch:
        ready = Path(scratch, "address")
        flags = ["--root", str(models), "--ready-file", str(ready), "--parent-pid", str(os.getpid())]
        hub = subprocess.Popen(
            [sys.executable, "-m", "tests.support.hub", *flags], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        try:
            yield _address(hub, ready)
        finally:
            hub.terminate()
            hub.wait(10)


def _address(hub: subprocess.Popen[bytes], ready: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and hub.poll() is None:
        if ready.exists() and (address := ready.read_text().strip()):
            return address
        SystemClock().sleep(0.05)
    raise SystemExit("error: the local Hub server did not start\n  next: python -m tests.support.hub --help")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
