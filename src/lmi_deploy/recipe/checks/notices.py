"""What should be known about a good recipe, and stops nothing."""

from __future__ import annotations

from lmi_deploy.catalog import options, vllm_arguments
from lmi_deploy.catalog.server_version import Server, recipe_server
from lmi_deploy.domain.recipe_keys import Recipe


def notices(recipe: Recipe) -> tuple[str, ...]:
    """A newer image than the tables know is judged by the newest that they know."""
    if recipe.engine != "vllm" or not recipe.options:
        return ()
    server = recipe_server(recipe)
    if server is None or not is_newer(server):
        return ()
    newest = vllm_arguments.images()[-1]
    known = f"0.36.0-lmi{newest}"
    found = [
        f"the image {server} is newer than the tables of lmi: lmi checked the options against vLLM "
        f"{vllm_arguments.version(newest)} ({known}); to use that version, write container: {{version: {known}}}"
    ]
    unknown = [
        name
        for name, _ in recipe.options
        if options.option_status("vllm", name, str(server)).state == "unknown"
    ]
    if unknown:
        found.append(
            f"lmi does not know whether {server} supports {', '.join(unknown)}: the server ignores unknown options"
        )
    return tuple(found)


def is_newer(server: Server) -> bool:
    """Whether an image is newer than the tables."""
    return server.image is not None and server.image > vllm_arguments.images()[-1]
