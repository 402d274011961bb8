"""What should be known about a good recipe, and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from lmi_deploy.catalog import options, vllm_arguments
from lmi_deploy.catalog.server_version import Server, recipe_server
from lmi_deploy.domain.recipe_keys import Recipe


def notices(recipe: Recipe) -> tuple[str, ...]:
    """A newer image than the tables know is judged by the newest that they know."""
    return (*_tables(recipe), *_neuron_degree(recipe))


SAME_CANDIDATE: Final = (
    "endpoint.candidate: it is the same as the version that serves, and its instances cost as well; "
    "change what it names, or remove it"
)
_OF_THE_DEPLOYMENT: Final = frozenset(
    {"name", "endpoint", "ttl", "bench", "overlay", "origin", "overrides", "candidate"}
)
"""Fields that do not change what a version serves."""


def candidate_notices(recipe: Recipe) -> tuple[str, ...]:
    """Without the facts that a plan gathers: a candidate may be the same although its keys differ."""
    second = recipe.candidate
    if second is None or recipe.endpoint.volume_gb != second.endpoint.volume_gb:
        return ()
    names = (each.name for each in fields(recipe) if each.name not in _OF_THE_DEPLOYMENT)
    is_same = all(getattr(recipe, name) == getattr(second, name) for name in names)
    return (SAME_CANDIDATE,) if is_same else ()


def _tables(recipe: Recipe) -> tuple[str, ...]:
    if not recipe.options or recipe.handler.file or recipe.handler.builtin:
        return ()
    if options.linted(recipe.engine) and not options.is_complete(recipe.engine):
        version = str(recipe_server(recipe) or options.newest(recipe.engine))
        return tuple(_unknown(recipe, version))
    return _newer_vllm(recipe) if recipe.engine == "vllm" else ()


def _neuron_degree(recipe: Recipe) -> Iterator[str]:
    """A degree that AWS does not list for these NeuronCores may not compile; AWS's own pages disagree."""
    degree = recipe.tensor_parallel_degree
    if recipe.engine != "neuronx" or degree is None:
        return
    # Imported here, not above: `lmi validate` of other engines does not need the instance types.
    from lmi_deploy.catalog.instances import NEURON_DEGREES, chosen

    for machine in chosen(recipe):
        listed = NEURON_DEGREES.get(machine.family, ())
        if listed and degree not in listed:
            yield (
                f"tensor_parallel_degree: AWS lists the degrees {', '.join(map(str, listed))} for {machine.family}, "
                f"not {degree}: the compilation may fail"
            )
            return


def _newer_vllm(recipe: Recipe) -> tuple[str, ...]:
    server = recipe_server(recipe)
    if server is None or not is_newer(server):
        return ()
    newest = vllm_arguments.images()[-1]
    known = options.newest_image()
    found = [
        f"the image {server} is newer than the tables of lmi: lmi checked the options against vLLM "
        f"{vllm_arguments.version(newest)} ({known}); to use that version, write container: {{version: {known}}}"
    ]
    return (*found, *_unknown(recipe, str(server)))


def _unknown(recipe: Recipe, server: str) -> Iterator[str]:
    names = [
        name
        for name, _ in recipe.options
        if options.option_status(recipe.engine, name, server).state == "unknown"
    ]
    if names:
        yield f"lmi does not know whether {server} supports {', '.join(names)}: the server ignores unknown options"


def is_newer(server: Server) -> bool:
    """Whether an image is newer than the tables."""
    return server.image is not None and server.image > vllm_arguments.images()[-1]
