"""A request to a model that has scaled to zero copies: the refused request starts one, and is sent again once it
serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.inference_http import ResponseHead
from lmi_deploy.domain.number_text import counted, seconds_text
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING
from lmi_deploy.domain.serving_record import SageMakerServing, ServingRecord
from lmi_deploy.errors import AccessError, Interrupted, NoCopies, Overdue
from lmi_deploy.workflows.dependencies import Dependencies

Response = Iterator[ResponseHead | bytes]
_PAUSE: Final = 10.0
"""Seconds between two looks for a copy."""
_ASK_AGAIN: Final = 120.0
"""Seconds between two requests while no copy is being started: a refused one is what starts it, and each one after that
may add a copy.
"""
_UNREADABLE: Final = 30.0
"""The same where the caller may only invoke."""
_USUAL_LIMIT: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWait:
    """How the user waits. `limit`: seconds; None: as long as an `lmi up` waits for the model."""

    show: Callable[[Event], None]
    done: Callable[[], None]
    """Ends what was shown: an answer follows."""
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAwaiter:
    """`send` sends the request: nothing before the first item is asked for."""

    ref: DeploymentRef
    serving: ServingRecord
    deps: Dependencies
    send: Callable[[], Response]
    wait: CopyWait | None

    def response(self) -> Response:
        """The head and the body. NoCopies at once if nothing starts a copy, or the user does not wait; other errors
        are never answered by a second request.
        """
        try:
            head, response = self._sent()
        except NoCopies as refused:
            if self.wait is None or self._limit <= 0 or not self._wakes:
                refused.hint = self._hint
                raise
            head, response = self._awaited(self.wait)
        yield head
        yield from response

    def _sent(self) -> tuple[ResponseHead, Response]:
        response = self.send()
        head = next(response)
        assert isinstance(head, ResponseHead)
        return head, response

    def _awaited(self, wait: CopyWait) -> tuple[ResponseHead, Response]:
        clock, name = self.deps.clock, self.ref.name
        started = asked = clock.monotonic()
        note = "no copy of the model runs; this request starts one, which takes minutes"
        wait.show(Notice(text=f"{name}: {note}. It is sent again then; Ctrl-C ends the waiting"))
        try:
            while (waited := clock.monotonic() - started) <= self._limit:
                done = round(waited, 1)
                wait.show(Progress(key=f"invoke {name}", done=done, total=None, unit="seconds", note=note))
                clock.sleep(_PAUSE)
                found = self._component()
                note = _note(found)
                if clock.monotonic() - asked < _next_request(found):
                    continue
                asked = clock.monotonic()
                try:
                    found_copy = self._sent()
                except NoCopies:
                    continue
                wait.done()
                return found_copy
        except KeyboardInterrupt:
            raise Interrupted(
                "interrupted: AWS goes on starting a copy, and removes it again when no request comes",
                hint="run the same command again",
            ) from None
        raise Overdue(
            f"{name}: no copy of the model answers after {seconds_text(self._limit)}: {note}",
            hint=f"run `{self.ref.command('status')}` and `{self.ref.command('logs')}` for the reason; "
            "--copy-timeout waits longer",
        )

    def _component(self) -> ObservedComponent | None:
        """None if these credentials may not look."""
        try:
            return self.deps.cloud(self.ref.region).components.component(self.ref.name)
        except AccessError:
            return None

    @property
    def _limit(self) -> float:
        if self.wait is not None and self.wait.limit is not None:
            return self.wait.limit
        return self.serving.place.wait_timeout or _USUAL_LIMIT

    @property
    def _wakes(self) -> bool:
        place = self.serving.place
        return isinstance(place, SageMakerServing) and place.scaling is not None and place.scaling.lowest == 0

    @property
    def _hint(self) -> str:
        if self._wakes:
            return f"send it again in some minutes, or wait with `{self.ref.command('invoke')}`"
        return f"start one: `{self.ref.command('scale')} 1`, or `lmi up` with its recipe"


def _next_request(found: ObservedComponent | None) -> float:
    if found is None:
        return _UNREADABLE
    if found.copies:
        return 0.0
    return inf if found.status in SETTLING else _ASK_AGAIN


def _note(found: ObservedComponent | None) -> str:
    if found is None:
        return "waiting for a copy of the model, which takes minutes"
    if not found.requested_copies:
        return "no copy of the model runs; AWS's alarm on the refused request starts one, which takes minutes"
    why = f" ({found.reason})" if found.reason else ""
    return f"{found.status}: {found.copies} of {counted(found.requested_copies, 'copy', 'copies')}{why}"
