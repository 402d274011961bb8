"""The documentation is right: its marked blocks run, page by page, against a local Hub and the emulator.

A page runs in a folder of its own with the project's `recipes/` and a small model in `weights/`. Hub models are
small ones of the same names. The emulator starts no containers: an endpoint answers with the request itself.
Prompts (`lmi up`, `lmi down`, ...) are answered with yes. `lmi` is forked: tests/e2e runs the program itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.djl_engine import cache_home
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import write_model
from tests.support.pages import DOCS, OUTSIDE, PAGES, ROOT, Block, blocks
from tests.support.program_forks import forked_lmi
from tools.picture import masked
from tools.pinned_environment import pinned_environment
from tools.quickstart import local_hub

pytestmark = pytest.mark.landing

MODELS: Mapping[str, Mapping[str, object]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": {},
    "Qwen/Qwen2.5-7B-Instruct": {},
    "meta-llama/Llama-3.1-8B-Instruct": {"gated": True, "accepted": ["hf_..."]},
}
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
ANSWER_YES = """\
lmi() {
  case "$1" in
    up|down|rollback|gc) command lmi "$@" --yes ;;
    weights) if [ "$2" = rm ]; then command lmi "$@" --yes; else command lmi "$@"; fi ;;
    *) command lmi "$@" ;;
  esac
}
"""
WITH_COMMANDS = [page for page in (*PAGES, *OUTSIDE) if any(block.kind == "run" for block in blocks(page))]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = tmp_path_factory.mktemp("hub")
    for name, settings in MODELS.items():
        (models / name).parent.mkdir()
        write_model(models / name)
        (models / name / "config.json").write_text(json.dumps(CONFIG))
        (models / name / ".hub.json").write_text(json.dumps(settings))
    with local_hub(models) as address:
        yield address


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000") as running:
        yield running


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_have_the_documented_output(
    page: Path, hub: str, aws: Emulated, tmp_path: Path
) -> None:
    folder, environment = place(tmp_path, hub, aws)
    printed = ""
    for block in blocks(page):
        if block.kind == "file":
            (folder / block.argument).parent.mkdir(exist_ok=True)
            (folder / block.argument).write_text(block.text)
        elif block.kind == "run":
            printed = ran(block, folder, environment)
        elif block.kind == "output":
            for line in masked(block.text).splitlines():
                assert line.strip() in masked(printed), f"{line}\nis not in\n{printed}"
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == [], "a page ends what it began"


NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_of_a_notebook_run_in_an_event_loop(
    notebook: Path, hub: str, aws: Emulated, tmp_path: Path
) -> None:
    """As in a kernel, one after the other with one namespace, in a thread that has an event loop."""
    folder, environment = place(tmp_path, hub, aws)
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "outputs are stripped"
    sources = ["".join(cell["source"]) for cell in cells]
    program = (
        f"import asyncio\nasync def kernel(names):\n    for cell in {sources!r}:\n        exec(cell, names)\n"
        "asyncio.run(kernel({}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for expected in ("valid", "in-step", "answer:", "concurrency", "delete the endpoint smollm2-g5"):
        assert expected in done.stdout, done.stdout
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []


RUN_NOTEBOOK = """\
import json, sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
print(json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"]))
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs_in_a_jupyter_kernel_and_shows_progress(
    notebook: Path, hub: str, aws: Emulated, tmp_path: Path
) -> None:
    """In an environment that has lmi's own requirements, Jupyter's kernel and no tool of development."""
    folder, environment = place(tmp_path, hub, aws)
    jupyter = {
        "PYTHONPATH": str(ROOT / "src"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    done = subprocess.run(
        [str(pinned_environment("notebook")), "-W", "ignore", "-c", RUN_NOTEBOOK, str(notebook)],
        cwd=folder,
        env={**environment, **jupyter},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [
        "".join(each.get("text", "") for each in outputs)
        for outputs in json.loads(done.stdout.splitlines()[-1])
    ]
    _, plan, up, answer, _, bench, down = printed
    assert "create the endpoint smollm2-g5" in plan
    for progress in (
        "ok  create the endpoint smollm2-g5",
        "ok  wait until smollm2-g5 is in service",
        "in-step",
    ):
        assert progress in up, up
    assert "answer:" in answer
    assert "concurrency" in bench
    assert "delete the endpoint smollm2-g5" in down
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []


def place(tmp_path: Path, hub: str, aws: Emulated) -> tuple[Path, dict[str, str]]:
    """The folder of a reader, and the variables."""
    folder = tmp_path / "page"
    folder.mkdir()
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    write_model(folder / "weights")
    (tmp_path / "yes.sh").write_text(ANSWER_YES)
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LMI_", "HF_"))
    }
    environment = {
        **inherited,
        **aws.environment(tmp_path),
        "BASH_ENV": str(tmp_path / "yes.sh"),
        "LMI_CACHE_HOME": str(cache_without_prices(tmp_path / "cache")),
        "HF_ENDPOINT": hub,
        "HF_HOME": str(tmp_path / "hub"),
        "PATH": f"{forked_lmi()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return folder, environment


def cache_without_prices(folder: Path) -> Path:
    """The user's cache of serving environments; a page that refreshes the prices leaves the user's as they are."""
    folder.mkdir()
    for name in ("engines", "environments"):
        kept = cache_home() / name
        kept.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(kept)
    return folder


def ran(block: Block, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of the block."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
    )
    assert done.returncode == block.exit_code, f"{block.text}\n{done.stdout}"
    return done.stdout


def test_every_how_to_runs_a_block_or_is_listed_as_exception() -> None:
    other_location = {
        "adopt-an-endpoint.md",  # needs an endpoint that another tool made: test_adopt.py
        "measure-with-several-machines.md",  # needs load: test_load_job.py
        "build-your-own-image.md",  # needs a registry: test_image_build.py
        "compile-ahead-of-time.md",  # needs a compiler: test_compile.py, test_published_*.py
        "measure-a-deployment.md",  # needs load: test_bench_run_sequence.py, tests/functional/test_bench_run.py
        "rehearse-a-recipe.md",  # tests/e2e/test_rehearse.py runs its command on every recipe
        "run-an-experiment.md",  # needs load: tests/functional/test_bench_experiment.py, test_published_experiments.py
        "run-vllm-here.md",  # tests/engines/test_vllm.py
        "serve-adapters.md",  # needs adapters: test_adapters.py
        "serve-models-without-the-hub.md",  # a server: tests/integration/hub/test_hub_serve.py
        "serve-with-triton.md",  # tests/engines/test_triton.py
        "use-other-servers.md",  # recipes and no commands: test_image_servers.py
        "run-in-ci.md",  # test_pipeline_page.py runs its scripts
        "send-requests.md",  # needs a model that answers: tests/functional/test_chat.py, test_invoke_options.py
        "use-openai-clients.md",  # tests/clients runs such clients
        "use-secrets.md",  # the AWS CLI's commands
        "use-networks-and-keys.md",  # a table of keys
    }
    run = {page.name for page in WITH_COMMANDS}
    assert {page.name for page in (DOCS / "how-to").glob("*.md")} - run == other_location


def test_no_block_runs_the_aws_cli() -> None:
    """The tests do not depend on the AWS CLI."""
    for page in WITH_COMMANDS:
        for block in blocks(page):
            assert not (block.kind == "run" and re.search(r"^aws ", block.text, re.M)), page
