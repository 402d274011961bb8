"""`lmi rehearse` of the wheel with every shipped recipe, each model from a local Hub by its config.json alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lmi_deploy.catalog.server_version import FAMILIES
from lmi_deploy.host.clock import SystemClock
from tests.e2e.conftest import ROOT, Installed
from tests.support.recipe_models import recipe_models

pytestmark = pytest.mark.model
RECIPES = ROOT / "recipes"
REAL_ENGINE = {"quickstart-vllm.yaml", "published/t5-triton-tensorrt/recipe.yaml"}
"""Need the environments of vLLM and of Triton: tests/engines."""
SHIPPED = sorted({str(path.relative_to(RECIPES)) for path in RECIPES.rglob("*.yaml")} - REAL_ENGINE)
ENGINE_LINE = re.compile(r"^engine: (\S+)", re.MULTILINE)
STEPS = [
    *("write the stand-in model", "start the emulator", "resolve the recipe", "up"),
    *("invoke", "invoke, streamed", "bad requests", "update", "rollback", "down"),
]
PUBLISHED = {
    "gpt2-tensorrt": (("variant", "c", "QPS", "max", "min", "mean"), 4),
    "flan-t5-fastertransformer": (
        ("Model", "Engine", "dtype", "batch", "TP", "workers", "P50", "P90", "P99"),
        1,
    ),
    "gpt-j-deepspeed": (
        ("variant", "instance", "concurrency", "input_tokens", "output_tokens", "requests"),
        8,
    ),
    "bert-inf1": (
        (
            "instance",
            "batch",
            "layout",
            "cores",
            "items/s",
            "P95 s",
            "$/1M",
            "throughput ratio",
            "cost ratio",
        ),
        2,
    ),
}
"""The published table's own first columns, and the cells of the small experiment. T5 needs Triton: tests/engines."""
IN_CI = {"flan-t5-fastertransformer": "landing"}
"""The experiment with a single deployment; `make test-all` rehearses the others."""
LEFT_OUT = ("-b1:", "pipeline-b6:", "inf1-6x-")
"""Variants of BERT: one instance type with a batch and the GPU with a batch stay."""
ENDS_WITHIN = 60.0
"""Seconds; an upper bound, for a busy machine."""
MARK = b"LMI_REHEARSAL_"


@dataclass(frozen=True)
class Place:
    """`lmi` with a folder of its own for temporary files, so that a test sees what is left."""

    lmi: Installed
    temporary: Path

    def left(self) -> list[str]:
        return sorted(path.name for path in self.temporary.glob("lmi-*") if any(path.iterdir()))

    def processes(self) -> list[str]:
        """Those that a rehearsal of this place started and that still run, by their command line."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                content = environ.read_bytes()
                if MARK in content and str(self.temporary).encode() in content:
                    found.append(environ.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


@pytest.fixture(scope="module")
def hub_address() -> Iterator[str]:
    with recipe_models() as hub:
        yield hub.url


@pytest.fixture
def place(installed: Installed) -> Iterator[Place]:
    variables = {key: value for key, value in installed.environment.items() if not key.startswith("AWS_")}
    # Short, unlike tmp_path: sockets under a long TMPDIR go to /tmp, where left() would not see them.
    with TemporaryDirectory(prefix="rehearse-") as temporary:
        yield Place(replace(installed, environment={**variables, "TMPDIR": temporary}), Path(temporary))


def result_of(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def by_family() -> Iterator[Any]:
    """Every shipped recipe; for a landing, the first of each image family."""
    seen = set()
    for recipe in SHIPPED:
        [engine] = ENGINE_LINE.findall((RECIPES / recipe).read_text("utf-8"))
        mark = pytest.mark.long if FAMILIES[engine] in seen else pytest.mark.landing
        seen.add(FAMILIES[engine])
        yield pytest.param(recipe, marks=mark)


def small_experiment(name: str, folder: Path) -> Path:
    """A copy of the published recipe with a part of its deployments."""
    copy = folder / name
    shutil.copytree(RECIPES / "published" / name, copy)
    recipe = copy / "recipe.yaml"
    lines = recipe.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not any(f"{part}" in line.partition("{")[0] for part in LEFT_OUT)]
    text = "".join(kept).replace("[ml.g4dn.2xlarge, ml.p3.2xlarge]", "[ml.g4dn.2xlarge]")
    recipe.write_text(text, "utf-8")
    return recipe


@pytest.mark.parametrize("recipe", [*by_family()])
def test_shipped_recipe_lives_its_whole_life(place: Place, recipe: str) -> None:
    """A new recipe needs the config.json of its model in tests/support/recipe_models.py."""
    done = place.lmi.run("rehearse", str(RECIPES / recipe), "--json")
    assert done.returncode == 0, done.stdout[-4000:]
    result = result_of(done.stdout)
    steps = [step["step"] for step in result["steps"]]
    expected = [step for step in STEPS if result["target"] == "sagemaker" or "emulator" not in step]
    assert [step for step in steps if step != "compile"] == expected
    assert result["proved"]
    assert result["not_provable"]
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=getattr(pytest.mark, IN_CI.get(name, "long"))) for name in PUBLISHED]
)
def test_published_experiment_is_rehearsed_and_prints_its_table(
    place: Place, tmp_path: Path, name: str
) -> None:
    """At a small scale: fewer deployments than the recipe compares, two values of each factor, a few requests."""
    recipe, table = small_experiment(name, tmp_path), tmp_path / "table.md"
    done = place.lmi.run("bench", str(recipe), "--rehearse", "--markdown", str(table), "--json")
    assert done.returncode == 0, done.stdout[-4000:]
    columns, cells = PUBLISHED[name]
    result = result_of(done.stdout)
    assert (result["points"], result["files"]) == (cells, [str(table)])
    assert f"| {' | '.join(columns)} |" in table.read_text("utf-8")
    assert "no figure says anything of the model" in done.stdout
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.long
def test_experiment_whose_variant_fails_its_rehearsal_measures_the_others(
    place: Place, tmp_path: Path
) -> None:
    recipe = small_experiment("flan-t5-fastertransformer", tmp_path)
    text = recipe.read_text("utf-8").replace(
        "{fastertransformer: {factors", "{own: own-script, fastertransformer: {factors"
    )
    recipe.write_text(text, "utf-8")
    (recipe.parent / "model.py").write_text(
        "import absent_package\n\n\ndef handle(inputs):\n    return None\n"
    )
    done = place.lmi.run("bench", str(recipe), "--rehearse")
    assert done.returncode == 1, done.stderr[-4000:]
    assert "1 cell or deployment failed the rehearsal" in done.stderr
    assert "  own: the rehearsal failed at: up: " in done.stderr
    assert "google/flan-t5-xxl" in done.stdout
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.landing
def test_artifact_is_the_one_that_render_writes(place: Place) -> None:
    recipe = str(RECIPES / "qwen2.5-7b-vllm.yaml")
    rehearsed = result_of(place.lmi.run("rehearse", recipe, "--json").stdout)
    assert "vLLM" in rehearsed["stand_in"]
    assert any(rehearsed["artifact"][:10] in line for line in rehearsed["proved"])
    assert any("probe.expect" in line for line in rehearsed["not_provable"])


@pytest.mark.landing
def test_failing_handler_is_explained_and_nothing_is_left(place: Place, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import absent_package\n\n\ndef handle(inputs):\n    return None\n")
    text = (RECIPES / "smollm2-g5.yaml").read_text()
    text = text.replace("handler: {template: text-generation}", "handler: {file: model.py}")
    (tmp_path / "own.yaml").write_text(text)
    done = place.lmi.run("rehearse", str(tmp_path / "own.yaml"))
    assert done.returncode == 1, done.stderr[-4000:]
    assert "the rehearsal failed at: up:" in done.stderr
    assert "absent_package" in done.stderr
    assert "lmi down" not in done.stderr
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.landing
def test_ctrl_c_ends_everything(place: Place) -> None:
    recipe = str(RECIPES / "smollm2-g5.yaml")
    argv = [str(place.lmi.lmi), "rehearse", recipe]
    with subprocess.Popen(
        argv, env=place.lmi.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stderr is not None
        seen = []
        for line in running.stderr:
            seen.append(line)
            if "create the endpoint smollm2-g5" in line:
                break
        running.send_signal(signal.SIGINT)
        seen += running.stderr.readlines()
    assert running.returncode == 130, "".join(seen)
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.landing
def test_kill_leaves_no_emulator_and_no_folder(place: Place) -> None:
    argv = [str(place.lmi.lmi), "rehearse", str(RECIPES / "smollm2-vllm-server.yaml"), "--keep"]
    with subprocess.Popen(
        argv, env=place.lmi.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if "create the endpoint" in line)
        running.kill()
        # The emulator's own standard error is its log, so that nothing else holds the pipe.
        running.stderr.read()
    clock = SystemClock()
    end = clock.monotonic() + ENDS_WITHIN
    while (place.left() or place.processes()) and clock.monotonic() < end:
        clock.sleep(0.2)
    assert (place.left(), place.processes()) == ([], [])


@pytest.mark.landing
def test_kept_deployment_answers_until_it_is_ended(place: Place) -> None:
    done = place.lmi.run("rehearse", str(RECIPES / "embeddings.yaml"), "--keep", "--json")
    assert done.returncode == 0, done.stdout[-4000:]
    folder = Path(result_of(done.stdout)["folder"])
    kept = {**place.lmi.environment, "LMI_STATE_HOME": str(folder / "state")}
    try:
        answer = place.lmi.run("invoke", "embeddings", "A cat on a mat.", env=kept)
        assert answer.returncode == 0, answer.stderr
    finally:
        ended = place.lmi.run("down", "embeddings", "--yes", env=kept)
    assert ended.returncode == 0, ended.stderr
    assert place.processes() == []


@pytest.mark.landing
def test_kept_emulator_is_reached_by_the_printed_lines(place: Place) -> None:
    done = place.lmi.run("rehearse", str(RECIPES / "smollm2-vllm-server.yaml"), "--keep")
    assert done.returncode == 0, done.stderr[-4000:]
    exports = dict(
        line.strip().removeprefix("export ").split("=", 1)
        for line in done.stderr.splitlines()
        if line.strip().startswith("export ")
    )
    try:
        answer = place.lmi.run("invoke", "smollm2-vllm-server", "Hello", env=exports)
        assert answer.returncode == 0, answer.stderr
    finally:
        os.kill(int(re.findall(r"`kill (\d+);", done.stderr)[0]), signal.SIGTERM)
    clock = SystemClock()
    end = clock.monotonic() + ENDS_WITHIN
    while place.processes() and clock.monotonic() < end:
        clock.sleep(0.2)
    assert place.processes() == []
