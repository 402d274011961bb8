"""The runtime of a recipe, what is created for it, and how its address is taken over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import AvailableRuntimes
from lmi_deploy.domain.local_actions import TakeAddress
from lmi_deploy.domain.observed_state import LocalInventory, LocalObserved, ObservedServer
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Recipe
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.render import render
from lmi_deploy.targets.local.plan import diff, server_name
from lmi_deploy.targets.local.runtime_selection import runtime_of
from tests.support.factories import LOCAL, facts, recipe, resolve, serving

ALL = AvailableRuntimes(names=("container", "djl-serving", "embedded"))
BARE = AvailableRuntimes(names=("embedded",), lacking={"container": "no image is named (container.image)"})
REF = DeploymentRef(name="m", target="local")


def recipe_for(runtime: RuntimeName, *, engine: Engine = "accelerate", image: str | None = None) -> Recipe:
    given = recipe()
    return replace(
        given,
        engine=engine,
        endpoint=replace(given.endpoint, runtime=runtime),
        container=replace(given.container, image=image),
    )


def test_auto_selects_the_best_available_runtime_for_the_engine() -> None:
    assert runtime_of(recipe_for("auto"), ALL) == "container"
    assert (
        runtime_of(recipe_for("auto"), AvailableRuntimes(names=("djl-serving", "embedded"))) == "djl-serving"
    )
    assert runtime_of(recipe_for("auto"), BARE) == "embedded"
    assert runtime_of(recipe_for("auto", engine="vllm"), ALL) == "container"
    assert runtime_of(recipe_for("embedded"), ALL) == "embedded"


@pytest.mark.parametrize(
    ("given", "available", "words", "hint"),
    [
        (
            recipe_for("container"),
            BARE,
            "container is not available on this machine: no image is named",
            "available: embedded",
        ),
        (
            recipe_for("djl-serving"),
            BARE,
            "djl-serving is not available on this machine",
            "available: embedded",
        ),
        (
            recipe_for("embedded", engine="lmi-dist"),
            ALL,
            "runtime embedded cannot run engine lmi-dist",
            "endpoint.runtime: container",
        ),
        (
            recipe_for("auto", engine="lmi-dist"),
            BARE,
            "no runtime on this machine runs engine lmi-dist: container could, but no image is named "
            "(container.image)",
            "accelerate or custom or triton or vllm",
        ),
    ],
)
def test_unavailable_runtime_is_refused_with_an_alternative(
    given: Recipe, available: AvailableRuntimes, words: str, hint: str
) -> None:
    with pytest.raises(Unresolvable) as refused:
        runtime_of(given, available)
    assert words in refused.value.message
    assert hint in refused.value.hint


def spec(runtime: RuntimeName) -> Spec:
    return resolve(recipe_for(runtime, image="repo/i:1"), replace(facts(), runtimes=ALL))


def test_only_a_container_has_an_image_and_it_is_part_of_the_server_name() -> None:
    assert (spec("container").place.image, spec("embedded").place.image) == ("repo/i:1", "")
    other = replace(spec("container").place, image="repo/i:2")
    first = spec("container")
    names = {server_name(one, render(one)) for one in (first, replace(first, place=other))}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("runtime", "created"),
    [
        ("embedded", ["InstallEngine", "BuildEnvironment"]),
        ("djl-serving", ["BuildEnvironment"]),
        ("container", []),
    ],
)
def test_only_what_the_runtime_needs_is_created(runtime: RuntimeName, created: list[str]) -> None:
    one = spec(runtime)
    nothing = LocalObserved(ref=REF, exists=False, record=None)
    inventory = LocalInventory(engine=False, environment=False, missing_weights=0)
    kinds = [action.kind for action in diff(one, render(one), nothing, inventory).actions]
    assert kinds == [*created, "PutArtifact", "StartServer", "AwaitReady", "ProbeServer"]


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        ("embedded", "embedded", False),
        ("embedded", "djl-serving", True),
        ("djl-serving", "embedded", True),
        ("container", "container", True),
    ],
)
def test_plan_reports_a_takeover_without_socket_handover(
    before: RuntimeName, after: RuntimeName, again: bool
) -> None:
    one = spec(after)
    old = ObservedServer(server="old", phase="ready", pid=1, port=one.place.port, runtime=before)
    generation = Generation(
        server="old",
        spec="",
        artifact="",
        runtime=before,
        host="127.0.0.1",
        port=one.place.port,
        serving=serving(LOCAL),
        since="",
    )
    record = Record(ref=REF, generations=(generation,))
    observed = LocalObserved(ref=REF, exists=True, record=record, servers=(old,), serving="old")
    inventory = LocalInventory(engine=True, environment=True, missing_weights=0)
    (take,) = (a for a in diff(one, render(one), observed, inventory).actions if isinstance(a, TakeAddress))
    assert take.loads_again is again
    assert ("requests are refused while the model loads again" in take.title) is again
