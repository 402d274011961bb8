"""Take over an endpoint that another tool made: read it, write its recipe, tag it and record it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.djl_serving import MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import ServingChange
from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint, ModelFiles
from lmi_deploy.errors import LmiError
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.recipe.reader import Purpose
from lmi_deploy.recipe.recipe_import import ImportedRecipe, import_recipe, newest_version
from lmi_deploy.targets.endpoint_adopter import Adoption, EndpointAdopter
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.import_source import SMALL, parse_serving_properties, read_source
from lmi_deploy.workflows.interruption import interrupted

_ARCHIVE: Final = 256 * MIB
"""Bytes of an archive that lmi downloads to read its code: a larger one contains the weights."""
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth")
_CODE: Final = (MODEL_PY, REQUIREMENTS_TXT)
_OBJECTS: Final = 10_000
"""The most objects of a prefix that are listed."""
Files = tuple[ModelFiles, dict[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedRecipe:
    """`files` belong beside the recipe, in a folder of its name."""

    recipe: ImportedRecipe
    files: dict[str, bytes]


def read_recipe_of(
    foreign: ForeignEndpoint, deps: Dependencies, *, model: str, purpose: Purpose
) -> AdoptedRecipe:
    """The recipe of an endpoint. Reads its model's files in S3: settings and code, and no weights."""
    adopter, files = deps.adopter(), dict[str, bytes]()
    try:
        found, files = _model_files(foreign, adopter)
    except LmiError as error:
        found = ModelFiles(properties={}, notes=(f"the model's files were not read: {error.message}",))
    source, version = adopter.recipe_source(foreign, found)
    recipe = import_recipe(
        source,
        model_id=model,
        version=version or newest_version(),
        instances=tuple(filter(None, foreign.config.settings.types)),
        purpose=purpose,
    )
    return AdoptedRecipe(recipe=recipe, files=files)


def _model_files(foreign: ForeignEndpoint, adopter: EndpointAdopter) -> Files:
    data = adopter.model_location(foreign)
    if data is None:
        return ModelFiles(properties={}), {}
    if foreign.model.archive:
        return _of_archive(data.store, data.path, foreign.endpoint.name)
    return _of_prefix(data.store, data.path, foreign.endpoint.name)


def _of_prefix(store: ObjectStore, prefix: str, name: str) -> Files:
    small: dict[str, bytes] = {}
    has_weights, others = False, list[str]()
    for number, stored in enumerate(store.list(prefix)):
        path = stored.key.removeprefix(prefix)
        if path in (SERVING_PROPERTIES, *_CODE) and stored.size <= SMALL and (got := store.get(stored.key)):
            small[path] = got[0]
        elif path.endswith(_WEIGHTS):
            has_weights = True
        elif path.endswith(".py"):
            others.append(path)
        if number >= _OBJECTS:
            break
    address = f"{SCHEME}{store.bucket}/{prefix}"
    properties = small.pop(SERVING_PROPERTIES, b"")
    code = {file: f"./{name}/{file}" for file in small}
    return ModelFiles(
        properties=parse_serving_properties(f"{address}{SERVING_PROPERTIES}", properties),
        model_py=code.get(MODEL_PY, ""),
        requirements=code.get(REQUIREMENTS_TXT, ""),
        weights=address if has_weights else "",
        other_files=tuple(others),
    ), small


def _of_archive(store: ObjectStore, key: str, name: str) -> Files:
    """Downloaded to a temporary file if it is small: else it contains the weights, and is not read."""
    address, stored = f"{SCHEME}{store.bucket}/{key}", store.head(key)
    if stored is None:
        return ModelFiles(
            properties={}, notes=(f"{address} was deleted: a new instance could not start",)
        ), {}
    if stored.size > _ARCHIVE:
        note = (
            f"{address} ({size_text(stored.size)}) was not read. Unpack it, name the folder of the weights with "
            "--model, and set handler.file if it has a model.py"
        )
        return ModelFiles(properties={}, notes=(note,)), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.tar.gz"
        with path.open("wb") as file:
            for chunk in store.read(key, etag=stored.etag):
                file.write(chunk)
        found = read_source(str(path), None, Path(folder))
    source = found.source
    return ModelFiles(
        properties=source.properties,
        model_py=source.model_py,
        requirements=source.requirements,
        other_files=source.other_files,
    ), found.files


def prepare_adoption(
    foreign: ForeignEndpoint, recipe: Recipe, deps: Dependencies, *, force: bool
) -> Adoption:
    """What would be tagged: reads only. Refused for what must not be adopted."""
    return deps.adopter().plan(foreign, recipe, force=force)


def adopt(adoption: Adoption, recipe: Recipe, deps: Dependencies, *, force: bool) -> Iterator[Event]:
    """Tag and record it, under the lock, if it is still what was shown."""
    adopter, ref = deps.adopter(), adoption.ref
    deps.targets[ref.target].remember(ref)
    perform = adopter.actions(ref)
    bootstrap = tuple(action for action in adoption.plan.actions if action.phase is Phase.BOOTSTRAP)
    yield from apply(replace(adoption.plan, actions=bootstrap), perform, NoJournal(), deps.clock)
    with locked(ref, deps):
        fresh = adopter.plan(adopter.read(ref.name, ref.region), recipe, force=force)
        require_agreed(adoption.plan, fresh.plan)
        journal = deps.journal(ref)
        try:
            yield from apply(fresh.plan, perform, journal, deps.clock)
        except KeyboardInterrupt:
            hint = "run the same command again: it continues"
            raise interrupted(ref, deps, hint=hint) from None
        if fresh.generation is not None:
            journal.commit(fresh.generation, ServingChange(kind="adopt", by=deps.who(ref)))
