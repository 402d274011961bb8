"""Current tags in SageMaker, and those in the tag search: some seconds old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import Resource, resource_kind
from lmi_deploy.ports.clock import Clock


class FakeTags(dict[str, Pairs]):
    """By ARN. Changes are stored with their time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._past: dict[str, list[tuple[float, Pairs]]] = {}

    def __setitem__(self, arn: str, tags: Pairs) -> None:
        super().__setitem__(arn, tags)
        self._note(arn, tags)

    def __delitem__(self, arn: str) -> None:
        super().__delitem__(arn)
        self._note(arn, ())

    def pop(self, arn: str, *otherwise: Any) -> Any:
        if arn in self:
            self._note(arn, ())
        return super().pop(arn, *otherwise)

    def visible(self, lag: float) -> Iterator[Resource]:
        """What a tag search that is `lag` seconds behind finds, including deletions."""
        for arn, past in sorted(self._past.items()):
            known = [tags for since, tags in past if since + lag <= self._clock.monotonic()]
            if known and known[-1]:
                kind, _, name = arn.split(":", 5)[5].partition("/")
                kind = resource_kind(kind, known[-1])  # type: ignore[arg-type]
                yield Resource(kind=kind, name=name, arn=arn, tags=known[-1])

    def _note(self, arn: str, tags: Pairs) -> None:
        self._past.setdefault(arn, []).append((self._clock.monotonic(), tags))
