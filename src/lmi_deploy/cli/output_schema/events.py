"""The events that every command may print, as types where the domain has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NotRequired, TypedDict

from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.type_schema import Schema
from lmi_deploy.errors.recipe_problem import Problem


class ActionFields(TypedDict):
    """One action of a plan: these fields and its own."""

    action: str
    key: str
    title: str


class PlanFields(TypedDict):
    """`key` is unique in the plan. `changes`: the settings that differ from the live ones. `figures`: amounts, such as
    the bytes to transfer and the price of an hour.
    """

    deployment: str
    actions: list[ActionFields]
    changes: list[Change]
    figures: dict[str, str]


class PieceFields(TypedDict):
    """A piece of a streamed answer, or lines of a response."""

    text: str


class OfSeveral(TypedDict):
    """The deployment that an event is about, if a command works on several."""

    deployment: NotRequired[str]


class ErrorFields(TypedDict):
    """`message`: what failed, and why. `hint`: what to do. Each `kind` has its `exit_code`: `lmi docs json-events`."""

    kind: str
    exit_code: int
    message: str
    hint: str
    details: list[str]


class FailedResult(TypedDict):
    """The last line of a command that failed; `problems` are the mistakes of a recipe."""

    error: ErrorFields
    problems: NotRequired[list[Problem]]


class VersionResult(TypedDict):
    """`lmi --version --json`. `json_output`: the version of this schema."""

    version: str
    json_output: str


SUCCESS: Final[Mapping[str, Schema]] = {"event": {"const": "result"}, "ok": {"const": True}}
FAILURE: Final[Mapping[str, Schema]] = {"event": {"const": "result"}, "ok": {"const": False}}
