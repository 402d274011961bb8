"""The serving environment of the quickstart, built once by the product's own adapter and kept in the tool's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lmi_deploy.composition.local import environments_at
from lmi_deploy.domain.deployment_spec import environment_name
from lmi_deploy.domain.events import Finished, Notice, Progress
from lmi_deploy.domain.recipe_keys import Handler
from lmi_deploy.engines.registry import ENGINES


def serving_python(*, tell: bool = False) -> Path:
    """The interpreter with torch and transformers in which the quickstart's handler runs."""
    module = ENGINES["accelerate"]
    packages = module.packages(module.handler(Handler(template="text-generation"), "text-generation"))
    name = environment_name(packages, "")
    environments = environments_at(os.environ)
    if not environments.ready(name):
        for event in environments.build(name, packages, "", key="environment"):
            if tell and isinstance(event, (Notice, Progress, Finished)):
                print(event.text if isinstance(event, Notice) else ".", file=sys.stderr, flush=True)
    return environments.python(name)
