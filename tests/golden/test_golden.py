"""From recipe and facts to every byte that ships and every word of the plan."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import templates
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.deployment_artifact import SLOT, Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.local_actions import StartServer
from lmi_deploy.domain.observed_state import LocalInventory, LocalObserved, ObservedServer
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.planning.render import render
from lmi_deploy.targets.local.plan import diff, estimate, server_name, serving, teardown
from lmi_deploy.ui.json_view import MachineView
from lmi_deploy.ui.text_view import HumanView
from tests.support.factories import resolve
from tests.support.recipe_parsing import parse

HERE = Path(__file__).parent
RECIPES = {
    "quickstart": HERE.parents[1] / "recipes" / "quickstart.yaml",
    **{path.stem: path for path in (HERE / "recipes").glob("*.yaml")},
}
CHANGE = ("timeouts.predict=90",)
Golden = Callable[[str, dict[str, bytes]], None]


@dataclass(frozen=True)
class PlannedRecipe:
    """A recipe, resolved and rendered."""

    spec: Spec
    artifact: Artifact

    @property
    def ref(self) -> DeploymentRef:
        return DeploymentRef(name=self.spec.name, target="local")

    @property
    def server(self) -> str:
        return server_name(self.spec, self.artifact)


def walk(name: str, *sets: str, change: Callable[[Facts], Facts] = lambda facts: facts) -> PlannedRecipe:
    path = RECIPES[name]
    recipe = parse(path.read_bytes(), f"{path.name}", sets=sets)
    facts = change(load(Facts, json.loads((HERE / "facts" / f"{name}.json").read_text())))
    own = {"model_py": recipe.handler.file, "requirements": recipe.requirements}
    given = {key: (path.parent / file).read_bytes() for key, file in own.items() if file}
    spec = resolve(recipe, replace(facts, **given))
    return PlannedRecipe(spec, render(spec))


def nothing(new: PlannedRecipe) -> LocalObserved:
    return LocalObserved(ref=new.ref, exists=False, record=None)


def in_service(live: PlannedRecipe) -> LocalObserved:
    """`live` is up, and nothing else."""
    place = live.spec.place
    generation = Generation(
        server=live.server,
        spec=live.spec.digest,
        artifact=live.artifact.digest,
        runtime=place.runtime,
        host=place.host,
        port=place.port,
        serving=serving(live.spec, live.artifact),
        since="2026-11-21T10:00:00+00:00",
    )
    return LocalObserved(
        ref=live.ref,
        exists=True,
        record=Record(ref=live.ref, generations=(generation,)),
        servers=(ObservedServer(server=live.server, phase="ready", pid=41, port=place.port),),
        artifacts=(live.artifact.digest,),
        serving=live.server,
    )


def half_finished(new: PlannedRecipe) -> LocalObserved:
    """A first `up` was interrupted while the model was loading."""
    place = new.spec.place
    start = StartServer(
        server=new.server,
        artifact=new.artifact.digest,
        environment=new.spec.environment,
        engine="0.34.0",
        runtime=place.runtime,
        host=place.host,
        port=place.port,
    )
    intent = Intent(action="StartServer", names=dump(start), outcome="pid 41")
    return LocalObserved(
        ref=new.ref,
        exists=True,
        record=Record(ref=new.ref, intents=(intent,)),
        servers=(ObservedServer(server=new.server, phase="loading", pid=41, port=place.port),),
        artifacts=(new.artifact.digest,),
    )


def plans(name: str) -> dict[str, tuple[Plan, Estimate]]:
    new, old = walk(name), walk(name, *CHANGE)
    local = LocalInventory(engine=True, environment=True, missing_weights=0)
    to_fetch = new.spec.weights.size if new.spec.model.source == "hub" else 0
    bare = LocalInventory(engine=False, environment=False, missing_weights=to_fetch)

    def planned(observed: LocalObserved, inventory: LocalInventory) -> tuple[Plan, Estimate]:
        return diff(new.spec, new.artifact, observed, inventory), estimate(new.spec, inventory)

    return {
        "first-up": planned(nothing(new), bare),
        "nothing-to-do": planned(in_service(new), local),
        "changed": planned(in_service(old), local),
        "half-finished": planned(half_finished(new), local),
        "teardown": (teardown(in_service(old)), Estimate()),
    }


def rendered_plan(plan: Plan, estimate: Estimate) -> tuple[bytes, bytes]:
    """The plan as text and as JSON, the latter with line breaks to make diffs readable."""
    out, story = io.StringIO(), io.StringIO()
    HumanView(out, story, live=False).plan(plan, estimate)
    assert out.getvalue() == ""
    lines = io.StringIO()
    MachineView(lines).plan(plan, estimate)
    (line,) = lines.getvalue().splitlines()
    return story.getvalue().encode(), json.dumps(
        json.loads(line), indent=1, ensure_ascii=False
    ).encode() + b"\n"


def unnamed(name: str, text: bytes) -> bytes:
    """Names that depend on our handler's code are masked: it changes more often than the plan."""
    for what, visited in (("NEW", walk(name)), ("OLD", walk(name, *CHANGE))):
        if visited.spec.engine.handler.template is None:
            return text
        digest = visited.artifact.digest
        for secret, mask in ((digest, "artifact"), (digest[:10], "art"), (visited.server, "server")):
            text = text.replace(secret.encode(), f"<{what} {mask}>".encode())
    return text


@pytest.mark.parametrize("name", RECIPES)
def test_artifact_matches_golden_files(golden: Golden, name: str) -> None:
    visited = walk(name)
    files = {file.path: file.content for file in visited.artifact.files}
    template = visited.spec.engine.handler.template
    if template is not None:
        assert files["model.py"] == (templates() / template / "model.py").read_bytes()
        files["model.py"] = f"# the template {template}, byte for byte\n".encode()
    golden(f"{name}/artifact", files)


@pytest.mark.parametrize("name", RECIPES)
def test_plans_match_golden_files(golden: Golden, name: str) -> None:
    files = {}
    for situation, plan in plans(name).items():
        text, data = rendered_plan(*plan)
        files[f"{situation}.txt"] = unnamed(name, text)
        files[f"{situation}.json"] = unnamed(name, data)
    golden(f"{name}/plans", files)


@pytest.mark.parametrize("name", RECIPES)
def test_java_properties_read_back_equal_the_recipe(name: str) -> None:
    visited = walk(name)
    written = next(file for file in visited.artifact.files if file.path == "serving.properties")
    assert parse_properties(written.content) == dict(visited.spec.engine.properties)
    filled = {file.path: file.content for file in visited.artifact.filled("/a b/wéights\\x")}
    assert parse_properties(filled["serving.properties"])["option.model_id"] == "/a b/wéights\\x"
    assert SLOT.encode() not in filled["serving.properties"]


def _elsewhere(facts: Facts) -> Facts:
    return replace(facts, port=9999, machine=Machine(memory=1, cores=1, accelerators=(("other", 2),)))


@pytest.mark.parametrize("name", RECIPES)
def test_artifact_does_not_depend_on_the_target(name: str) -> None:
    assert walk(name, change=_elsewhere).artifact == walk(name).artifact
    ports = {walk(name, f"endpoint.port={port}").artifact.digest for port in (7001, 7002)}
    assert ports == {walk(name).artifact.digest}
    assert walk(name, *CHANGE).artifact.digest != walk(name).artifact.digest


@pytest.mark.parametrize("name", RECIPES)
def test_server_name_changes_only_with_what_it_serves(name: str) -> None:
    assert walk(name).server == walk(name).server
    others = [walk(name, *CHANGE), walk(name, "endpoint.port=7777")]
    assert len({walk(name).server, *(other.server for other in others)}) == 3
