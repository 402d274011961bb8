"""What the load generator hands over: one record per request, and the run around them.

All times are seconds of one monotonic clock; only `RunResult.began` is of the wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.report import BilledInstances, ClientFigures, Factor

InputCounter = Literal["server", "tokenizer", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """`scheduled` is the place in the schedule of an open loop; of a closed loop the time when a client was free.

    `arrivals` are the times of the parts of a stream that had content; a whole response has none. Output tokens are the
    server's count, None if it has none; `input_counted_by`: whose count `input_tokens` is.
    """

    scheduled: float
    sent: float
    end: float
    arrivals: tuple[float, ...] = ()
    status: int = 0
    error: str = ""
    """The class of the error; empty: the request succeeded."""
    detail: str = ""
    truncated: bool = False
    input_tokens: int | None = None
    input_counted_by: InputCounter = ""
    asked_input_tokens: int | None = None
    """The length for which the prompt was made."""
    output_tokens: int | None = None
    asked_tokens: int | None = None
    """The exact length that was asked for."""
    items: int = 1
    """Prompts in the request: its batch."""
    sent_bytes: int = 0
    received_bytes: int = 0
    warmup: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One cell: what was asked for. `factors` are its place in the design, and make its name."""

    load: Load
    factors: dict[str, Factor] = field(default_factory=dict)
    billed: BilledInstances = field(default_factory=BilledInstances)
    settings: dict[str, Factor] = field(default_factory=dict)
    streams: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """`records` in the order in which they were scheduled."""

    settings: RunSettings
    records: tuple[RequestRecord, ...]
    client: ClientFigures
    began: str
    """Wall clock, ISO 8601, UTC."""
    warm_at: float | None = None
    """When the warm-up ended, on the clock of the records; None: the run ended before."""
    kept_until: float | None = None
    """Until when the load was kept up, on the clock of the records; None: all that was planned was sent."""
    interrupted: bool = False
    cloudwatch: dict[str, float] = field(default_factory=dict)
