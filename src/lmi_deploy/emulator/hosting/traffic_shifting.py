"""The traffic of an endpoint: the instances that it is routed to (its fleets), and how an update shifts it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lmi_deploy.emulator.hosting.instance_pools import running_type
from lmi_deploy.emulator.hosting.instances import GRACE, HostingInstance, InstanceLocation, Instances
from lmi_deploy.emulator.hosting.resource_tasks import Key
from lmi_deploy.emulator.record_store import Row


@dataclass(frozen=True, slots=True)
class TrafficStep:
    share: float
    wait: float


def shifts(guard: Row | None, instances: int) -> Iterator[TrafficStep]:
    """All at once, canary, linear or rolling, by the deployment policy."""
    if guard and "RollingUpdatePolicy" in guard:
        policy = guard["RollingUpdatePolicy"]
        yield from _linear(policy["MaximumBatchSize"], instances, policy["WaitIntervalInSeconds"])
        return
    routing = ((guard or {}).get("BlueGreenUpdatePolicy") or {}).get("TrafficRoutingConfiguration") or {}
    wait = float(routing.get("WaitIntervalInSeconds", 0))
    match routing.get("Type"):
        case "CANARY":
            yield TrafficStep(_fraction(routing["CanarySize"], instances), wait)
            yield TrafficStep(1.0, wait)
        case "LINEAR":
            yield from _linear(routing["LinearStepSize"], instances, wait)
        case _:
            yield TrafficStep(1.0, wait)


def termination_wait(guard: Row | None) -> float:
    policy = (guard or {}).get("BlueGreenUpdatePolicy") or {}
    return float(policy.get("TerminationWaitInSeconds", 0))


def execution_limit(guard: Row | None) -> float:
    """Maximum seconds of a complete update."""
    policies = ("BlueGreenUpdatePolicy", "RollingUpdatePolicy")
    limits = [(guard or {}).get(name, {}).get("MaximumExecutionTimeoutInSeconds") for name in policies]
    return float(next((limit for limit in limits if limit is not None), math.inf))


def _linear(size: Row, instances: int, wait: float) -> Iterator[TrafficStep]:
    steps = max(1, math.ceil(1.0 / _fraction(size, instances)))
    for step in range(1, steps + 1):
        yield TrafficStep(step / steps, float(wait))


def _fraction(size: Row, instances: int) -> float:
    """A CapacitySize as a part of all."""
    if size["Type"] == "INSTANCE_COUNT":
        return min(1.0, float(size["Value"]) / max(1, instances))
    return min(1.0, float(size["Value"]) / 100.0)


@dataclass(slots=True)
class Fleet:
    """Every variant of one deployment. Of a variant's instances one is real."""

    deployment: Row
    instances: dict[str, HostingInstance]

    def choose(self, variant: str | None) -> tuple[str, HostingInstance] | None:
        """The named variant, else one by the weights."""
        variants = [
            existing for existing in self.deployment["variants"] if existing["name"] in self.instances
        ]
        if variant is not None:
            found = any(existing["name"] == variant for existing in variants)
            return (variant, self.instances[variant]) if found else None
        weights = [existing["weight"] for existing in variants]
        if not variants or sum(weights) <= 0:
            return None
        name = random.choices(variants, weights)[0]["name"]
        return name, self.instances[name]

    def shadows(self) -> Iterator[tuple[HostingInstance, float]]:
        """Its shadow variants, each with the share of the requests that it gets a copy of."""
        whole = sum(existing["weight"] for existing in self.deployment["variants"])
        for shadow in self.deployment["shadows"]:
            if whole and shadow["name"] in self.instances:
                yield self.instances[shadow["name"]], shadow["weight"] / whole


@dataclass(slots=True)
class TrafficRoute:
    """The routing of requests: `green` gets its share of them while it replaces `blue`."""

    blue: Fleet
    green: Fleet | None = None
    share: float = 0.0

    def choose(self, variant: str | None) -> tuple[str, HostingInstance] | None:
        to_green = self.green is not None and random.random() < self.share
        fleet = self.green if to_green and self.green is not None else self.blue
        return fleet.choose(variant)


@dataclass(slots=True)
class Fleets:
    instances: Instances
    routes: dict[Key, TrafficRoute] = field(default_factory=dict)

    async def start(self, key: Key, deployment: Row) -> Fleet:
        """All variants at once; if one fails, all are removed, and its error is raised."""
        work = [
            asyncio.ensure_future(self._start(key, variant, deployment["began"]))
            for variant in (*deployment["variants"], *deployment["shadows"])
        ]
        try:
            up = await asyncio.gather(*work)
        except BaseException:
            await self._give_up(work)
            raise
        return Fleet(
            deployment, {instance.place.variant: instance for instance in up if instance is not None}
        )

    async def _start(self, key: Key, variant: Row, started: float) -> HostingInstance | None:
        """None for a variant of inference components, which are started later."""
        kind = running_type(variant)  # of an emulator that was started again
        if not kind:
            kind = await self.instances.provide(key, variant, variant["desired_count"])
        place = InstanceLocation(*key, variant["name"], kind)
        if variant["model"] is None:
            await self.instances.provision(started)
            return None
        role = variant["model"].get("ExecutionRoleArn", "")
        return await self.instances.start(place, variant, role=role, started=started)

    async def _give_up(self, work: Sequence[asyncio.Future[HostingInstance | None]]) -> None:
        for one in work:
            one.cancel()
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(outcome, HostingInstance):
                await self.instances.take_down(outcome, grace=0.0)

    async def take_down(self, fleet: Fleet | None, *, grace: float = GRACE) -> None:
        if fleet is not None:
            ends = (self.instances.take_down(one, grace=grace) for one in fleet.instances.values())
            await asyncio.gather(*ends)

    async def take_down_all(self, key: Key, *, grace: float = GRACE) -> None:
        route = self.routes.pop(key, None)
        if route is not None:
            fleets = (route.blue, route.green)
            await asyncio.gather(*(self.take_down(fleet, grace=grace) for fleet in fleets))
