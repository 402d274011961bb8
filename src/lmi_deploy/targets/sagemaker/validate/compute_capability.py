"""The options of vLLM, checked against the GPUs of the instance types."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.planning.compute_capability import device_mistakes, engine_settings, rated_devices
from lmi_deploy.recipe.checks.issue import Issue, Rule


def _capability(recipe: Recipe) -> Iterator[Issue]:
    if recipe.engine != "vllm" or not (recipe.options or recipe.container.environment):
        return
    settings, reported = engine_settings(recipe), set()
    for instance, device, capability in rated_devices(recipe):
        for mistake in device_mistakes(settings, f"{device} of {instance}", capability):
            if mistake.option not in reported:
                reported.add(mistake.option)
                is_option = mistake.option in settings.options
                group = "options" if is_option else "container.environment"
                yield Issue(
                    path=f"{group}.{mistake.option}",
                    what=mistake.what,
                    hint=mistake.hint,
                    depends_on=("instance_type", "engine", "container.version"),
                )


RULES: tuple[Rule, ...] = (_capability,)
