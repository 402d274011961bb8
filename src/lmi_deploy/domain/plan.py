"""The plan as data: every action concrete, none waiting for another's output."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.local_actions import LocalAction
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.actions import CloudAction
from lmi_deploy.domain.settings_digest import digest_tag

Action = LocalAction | CloudAction


@digest_tag("Change")
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs from the live one; empty text means absent."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    deployment: str
    actions: tuple[Action, ...]
    changes: tuple[Change, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.actions

    def has_action(self, kind: type[Action] | Phase) -> bool:
        """Whether one of the actions is of this kind or phase."""
        return any(kind in (type(action), action.phase) for action in self.actions)

    def without(self, phase: Phase) -> Plan:
        return replace(self, actions=tuple(action for action in self.actions if action.phase is not phase))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the user should know before agreeing to a plan, by name: bytes, memory, money. It decides nothing."""

    figures: Pairs = ()

    def figure(self, name: str) -> str:
        return dict(self.figures).get(name, "")

    def plus(self, name: str, value: str) -> Estimate:
        return Estimate(figures=(*self.figures, (name, value)))
