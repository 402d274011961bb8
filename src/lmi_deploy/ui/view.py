"""The interface for a command's output; it has two implementations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.errors import LmiError

if TYPE_CHECKING:
    from lmi_deploy.domain.plan import Estimate, Plan

Fields = Mapping[str, Any]


class View(Protocol):
    def show(self, event: Event, deployment: str = "") -> None:
        """One thing that happened. `deployment` names the one it happened to, if a command works on several at once."""

    def end(self, deployment: str) -> None:
        """Nothing more happens to this one of several deployments."""

    def plan(self, plan: Plan, estimate: Estimate) -> None:
        """The plan before it is carried out: informational."""

    def note(self, text: str, *, copied: bool = False) -> None:
        """Part of the story; never the result. `copied`: commands, whose lines are not broken to fit a terminal."""

    def rows(self, rows: Sequence[Fields], *, spare: Sequence[str] = ()) -> None:
        """Several results of one form; `spare` names columns that may be left out on a narrow terminal, least needed
        first.
        """

    @property
    def width(self) -> int:
        """Characters of a line of the result; 0: unlimited, as in a pipe."""

    def words(self, lines: Iterable[str]) -> None:
        """The result as text, if it is more than a line; a program reads the fields of `result`. A terminal breaks
        long lines between words, except those with columns and those of a difference.
        """

    def refresh(self, fields: Fields, lines: Sequence[str], line: str) -> None:
        """A state that is shown again and again: a terminal shows `lines` in place of the ones before, anything else
        gets one more `line`.
        """

    def chunk(self, text: str) -> None:
        """A part of a response, as it arrives."""

    def end_of_response(self) -> None:
        """The response is complete, and its last line has no newline."""

    def result(self, fields: Fields, text: str = "") -> None:
        """The result of the command: `fields` for machines, `text` for people."""

    def unshown_lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        """The lines that were not just shown as `Line`s."""

    def fail(self, error: LmiError) -> None:
        """What, why and what next."""

    def close(self) -> None:
        """Leave the terminal as it was."""
