"""Events during a command: the only input of `ui`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.action import Phase

Unit = Literal["bytes", "files", "layers", "packages", "seconds", "steps", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An action starts. `key` is its name in the plan, `title` the name for people."""

    key: str
    title: str
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of the running action; `total` is None if unknown."""

    key: str
    done: float
    total: float | None
    unit: Unit
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One log line of another program, such as the installer or the worker."""

    key: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    key: str
    title: str
    phase: Phase
    seconds: float
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something the user should know that is no error."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A real inference request was answered: that of the probe, or a turn of `lmi chat`."""

    prompt: str
    answer: str
    seconds: float
    adapter: str = ""
    """The LoRA adapter that answered; empty: the model itself."""


Event = Started | Progress | Line | Finished | Notice | Answered
