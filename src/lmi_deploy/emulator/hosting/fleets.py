"""The instances behind an endpoint, and the routing of requests among them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmi_deploy.emulator.hosting.instances import GRACE, HostingInstance, InstanceLocation, Instances
from lmi_deploy.emulator.hosting.tasks import Key
from lmi_deploy.emulator.record_store import Row


@dataclass(slots=True)
class Fleet:
    """Every variant of one deployment. Of a variant's instances one is real."""

    deployment: Row
    instances: dict[str, HostingInstance]

    def choose(self, variant: str | None) -> tuple[str, HostingInstance] | None:
        """The named variant, else one by the weights."""
        if variant is not None:
            return (variant, self.instances[variant]) if variant in self.instances else None
        variants = [
            existing for existing in self.deployment["variants"] if existing["name"] in self.instances
        ]
        weights = [existing["weight"] for existing in variants]
        if not variants or sum(weights) <= 0:
            return None
        name = random.choices(variants, weights)[0]["name"]
        return name, self.instances[name]


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
            for variant in deployment["variants"]
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
        place = InstanceLocation(*key, variant["name"], variant["params"].get("InstanceType", "serverless"))
        if variant["model"] is None:
            await self.instances.provision(place, started)
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
