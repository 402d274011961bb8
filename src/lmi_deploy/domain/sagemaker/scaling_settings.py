"""How Application Auto Scaling sets a number: of instances of a variant, or of copies of an inference component."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.recipe_scaling_keys import COOLDOWN, ScheduledBounds, StepScaling, TrackedMetric
from lmi_deploy.domain.settings_digest import ADDED, digest_tag

ScalableKind = Literal["variant", "component"]
"""What is scaled: the variant of an endpoint (instances), or an inference component (copies)."""
_COUNTED: Final[dict[ScalableKind, tuple[str, str]]] = {
    "variant": ("instance", "instances"),
    "component": ("copy", "copies"),
}


def counted_units(count: int, kind: ScalableKind) -> str:
    """`1 instance`, `2 copies`."""
    return counted(count, *_COUNTED[kind])


@digest_tag("Scaling")
@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Bounds, and what moves the number within them."""

    least: int
    most: int
    invocations: int
    """Target tracking on invocations a minute and instance or copy; 0: not tracked."""
    concurrency: float = field(default=0.0, metadata=ADDED)
    """Target tracking on concurrent requests of each model or copy; 0: not tracked."""
    metric: TrackedMetric | None = field(default=None, metadata=ADDED)
    """Target tracking on a metric, with its dimensions."""
    backlog: float = field(default=0.0, metadata=ADDED)
    """Target tracking on the queue of an asynchronous endpoint, requests for each instance; 0: not tracked."""
    steps: tuple[StepScaling, ...] = field(default=(), metadata=ADDED)
    """By name, with their dimensions; one of them starts an instance again where there may be none."""
    scale_in: bool = field(default=True, metadata=ADDED)
    scale_in_cooldown: int = field(default=COOLDOWN, metadata=ADDED)
    """Seconds, as the next."""
    scale_out_cooldown: int = field(default=COOLDOWN, metadata=ADDED)
    scheduled: tuple[ScheduledBounds, ...] = field(default=(), metadata=ADDED)
    """By name."""
    uneven: Pairs = field(default=(), metadata=ADDED)
    """Policies of target tracking that another tool gave a pace of their own, in words. Empty as lmi sets them."""

    @property
    def highest(self) -> int:
        """The largest number that it may reach, at any time."""
        return max(self.most, *(max(each.min or 0, each.max or 0) for each in self.scheduled), 0)

    @property
    def lowest(self) -> int:
        """The smallest number that it may reach, at any time."""
        return min((self.least, *(each.min for each in self.scheduled if each.min is not None)))

    def words_of(self, kind: ScalableKind) -> str:
        parts = [f"{self.least} to {self.most} {_COUNTED[kind][1]}"]
        if self.invocations:
            parts.append(f"{self.invocations} invocations a minute each")
        if self.concurrency:
            parts.append(f"{self.concurrency:g} concurrent requests each")
        if self.backlog:
            parts.append(f"{self.backlog:g} queued requests each")
        if self.metric:
            parts.append(self.metric.words)
        parts += [f"{each.name}: {each.words_in(_COUNTED[kind][1])}" for each in self.steps]
        parts += [f"{each.name}: {each.words}" for each in self.scheduled]
        return ", ".join(parts)

    def summary_of(self, kind: ScalableKind) -> dict[str, str]:
        """Field by field, without those that have their default."""
        plain = replace(self, concurrency=0.0, metric=None, scheduled=(), backlog=0.0, steps=(), uneven=())
        found = {"scaling": plain.words_of(kind)}
        if self.concurrency:
            found["scaling.concurrent_requests"] = f"{self.concurrency:g}"
        if self.backlog:
            found["scaling.backlog"] = f"{self.backlog:g}"
        if self.metric:
            found["scaling.metric"] = self.metric.words
        if not self.scale_in:
            found["scaling.scale_in"] = "false"
        found |= {f"scaling.pace.{policy}": words for policy, words in self.uneven}
        if (self.scale_in_cooldown, self.scale_out_cooldown) != (COOLDOWN, COOLDOWN):
            found["scaling.cooldown"] = f"in {self.scale_in_cooldown} s, out {self.scale_out_cooldown} s"
        found |= {f"scaling.steps.{each.name}": each.words_in(_COUNTED[kind][1]) for each in self.steps}
        return found | {f"scaling.scheduled.{each.name}": each.words for each in self.scheduled}


def differs(live: Scaling | None, desired: Scaling | None) -> bool:
    """Whether what is registered is not what is desired. The bounds are not compared while scheduled actions set them,
    and neither is an action for one moment, which may be over.
    """
    if live is None or desired is None:
        return live is not desired
    if desired.scheduled:
        live = replace(live, least=desired.least, most=desired.most)
    return _lasting(live) != _lasting(desired)


def _lasting(scaling: Scaling) -> Scaling:
    kept = (each for each in scaling.scheduled if not each.schedule.startswith("at("))
    steps = tuple(sorted(scaling.steps, key=lambda each: each.name))
    return replace(scaling, scheduled=tuple(sorted(kept, key=lambda each: each.name)), steps=steps)
