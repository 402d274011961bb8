"""The serving environment of the quickstart, built once by the product's own adapter and kept in the tool's cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from lmi_deploy.composition.local import environments_at
from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_spec import environment_name
from lmi_deploy.domain.events import Event, Finished, Line, Started
from lmi_deploy.domain.recipe_keys import Handler
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.ui.text_view import human_view
from lmi_deploy.ui.view import View

_KEY = "environment"


def serving_python(*, tell: bool = False) -> Path:
    """The interpreter with torch and transformers in which the quickstart's handler runs."""
    module = ENGINES["accelerate"]
    packages = module.packages(module.handler(Handler(template="text-generation"), "text-generation"))
    name = environment_name(packages, "")
    environments = environments_at(os.environ)
    if not environments.ready(name):
        _build(environments.build(name, packages, "", key=_KEY), human_view() if tell else None)
    return environments.python(name)


def _build(events: Iterable[Event], view: View | None) -> None:
    """In a terminal one line says how far it is."""
    title, started = "build the worker's serving environment", time.monotonic()
    if view is not None:
        view.show(Started(key=_KEY, title=title, phase=Phase.STORE))
    for event in events:
        if view is not None and not isinstance(event, Line):
            view.show(event)
    if view is not None:
        seconds = time.monotonic() - started
        view.show(Finished(key=_KEY, title=title, phase=Phase.STORE, seconds=seconds))
        view.close()
