"""The compile of a rehearsal: the recipe's own script, run on this machine with the stand-in model."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lmi_deploy.catalog.stand_ins import StandIn
from lmi_deploy.domain.compile import CompileSpec
from lmi_deploy.domain.deployment_spec import environment_name
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.gathered_facts import CompiledModel, Facts, ModelListing
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.planning.worker_packages import worker_packages
from lmi_deploy.ports.compiled_models import CompileOrder, StoredCompile
from lmi_deploy.workflows.dependencies import Dependencies

TIMEOUT: Final = 600
"""Seconds: the stand-in model is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedCompile:
    """`folder` has what is served; `environment` is the name of the one that the script ran in."""

    model: CompiledModel
    folder: Path
    environment: str

    @property
    def outcome(self) -> str:
        files = self.model.listing.files
        size = size_text(sum(file.size for file in files))
        return f"{counted(len(files), 'file')}, {size}: {', '.join(file.path for file in files)}"


def compile_stand_in(
    recipe: Recipe,
    facts: Facts,
    listing: ModelListing,
    folder: Path,
    *,
    stand_in: StandIn | None,
    user: Dependencies,
) -> Generator[Event, None, RehearsedCompile]:
    """`listing` and `folder` are those of the stand-in model. A result that was made before is taken again."""
    what = CompileSpec(
        weights=digest([(file.path, file.oid) for file in listing.files]),
        engine=recipe.engine,
        compiler="script",
        image="",
        device=stand_in.compiler_digest if stand_in else "",
        script=facts.compile_script or b"",
        requirements=facts.compile_requirements or b"",
        arguments=recipe.compile.arguments if recipe.compile else (),
    )
    environment = yield from _environment(what.requirements.decode(), user)
    order = CompileOrder(
        identity=what.identity,
        script=what.script,
        arguments=what.arguments,
        model=folder,
        python=user.environments.python(environment),
        timeout=TIMEOUT,
        made_by="a rehearsal",
        variables=_path(stand_in),
    )
    made: StoredCompile = yield from user.compiled_models.make(order, key="compile")
    compiled = replace(listing, commit=what.identity, files=made.files, compiled=made.made_by)
    return RehearsedCompile(
        model=CompiledModel(listing=compiled), folder=made.folder, environment=environment
    )


def _environment(requirements: str, user: Dependencies) -> Generator[Event, None, str]:
    """That of the script's requirements; without any, the one with torch and transformers, as an image has them."""
    packages = () if requirements else worker_packages(b"", b"")
    name = environment_name(packages, requirements)
    if not user.environments.ready(name):
        yield Notice(text="building the environment of the compile script; this is done once ...")
        yield from user.environments.build(name, packages, requirements, key="environment")
    return name


def _path(stand_in: StandIn | None) -> dict[str, str]:
    """The stand-in's packages first: compilers that no package index offers."""
    return (
        {"PYTHONPATH": os.fspath(stand_in.compiler_folder)} if stand_in and stand_in.compiler_packages else {}
    )
