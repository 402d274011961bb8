"""The generations that a deployment can go back to, counted back from the one that serves."""

from __future__ import annotations

from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import Generation
from lmi_deploy.errors import NotFound
from lmi_deploy.targets.sagemaker.plan.resource_actions import existing


def earlier(observed: CloudObserved) -> tuple[Generation, ...]:
    """The recorded generations that are not current, the last one first: number 1 is the previous one."""
    serving = observed.endpoint.config if observed.endpoint else ""
    known = observed.record.generations if observed.record else ()
    return tuple(generation for generation in reversed(known) if generation.server != serving)


def candidates(observed: CloudObserved) -> tuple[tuple[Generation, str], ...]:
    """The same, each with the reason if a rollback to it is impossible, or empty."""
    return tuple((each, lacks(each, observed)) for each in earlier(observed))


def lacks(generation: Generation, observed: CloudObserved) -> str:
    """Which of its resources is missing, so that a rollback to it is impossible; empty if none is."""
    if generation.server not in existing(observed, "endpoint-config"):
        return f"its endpoint config {generation.server} was deleted"
    model = generation.serving.cloud.model
    return f"its model {model} was deleted" if model and model not in existing(observed, "model") else ""


def chosen_generation(observed: CloudObserved, to: int | str = 0) -> Generation:
    """The one with this number or this endpoint config. 0: an interrupted rollback, else the first possible one.

    NotFound if the record contains no such generation, or a part of it is deleted.
    """
    if not to:
        return _default(observed)
    past, name = earlier(observed), observed.ref.name
    numbered = past[to - 1 : to] if isinstance(to, int) else [each for each in past if each.server == to]
    if not numbered:
        # An interrupted rollback that already switched the endpoint continues with the wait and the probe.
        known = observed.record.generations if observed.record else ()
        numbered = [each for each in known if each.server == to]
    if not numbered:
        count = len(past)
        kept = f"{counted(count, 'earlier generation')} kept"
        hint = f"choose a number from `lmi status {name}`, or run `lmi up` with an earlier recipe"
        raise NotFound(f"{name}: no generation {to}: {kept}", hint=hint)
    if why := lacks(numbered[0], observed):
        hint = f"run `lmi up` with its recipe, or choose another one from `lmi status {name}`"
        raise NotFound(f"{name}: cannot roll back to generation {to}: {why}", hint=hint)
    return numbered[0]


def _default(observed: CloudObserved) -> Generation:
    record = observed.record
    present = existing(observed, "endpoint-config")
    if record and record.coming and record.coming.server in present & {g.server for g in record.generations}:
        return record.coming  # an earlier rollback was interrupted
    possible = [generation for generation in earlier(observed) if not lacks(generation, observed)]
    if not possible:
        raise NotFound(
            f"{observed.ref.name}: no earlier generation to roll back to",
            hint="run `lmi up` with an earlier recipe; the record keeps the last five generations",
        )
    return possible[0]
