"""What `lmi` and the machines of a load job tell each other: objects in the bucket, below the prefix of the job. Pure.

request.json                 what all loads have in common       written by lmi, before the job
requests.jsonl               the requests                        lmi, before the job
clock                        read to know S3's time              lmi, before the job
machines/2.json              machine 2 runs, and its clock       that machine
loads/0.json                 the first load; `null` ends the job lmi
ready/0/2.json               machine 2 may begin with it         that machine
starts/0.json                when all of them begin              lmi
progress/2.json              how far machine 2 is                that machine, every few seconds
stop                         end the load now                    lmi
results/0/2.json, .jsonl.gz  what machine 2 has measured         that machine
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.merged_runs import MachineRun
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import ClientFigures, Provenance
from lmi_deploy.bench.request_records import RequestRecord, RunResult, RunSettings
from lmi_deploy.bench.request_records_file import head_line, read_records, record_lines
from lmi_deploy.bench.request_target import RequestForm
from lmi_deploy.bench.run_limits import RunLimits, RunProgress
from lmi_deploy.domain import dataclass_json
from lmi_deploy.errors import IntegrityError

SCHEMA: Final = 1
REQUEST: Final = "request.json"
REQUESTS: Final = "requests.jsonl"
CLOCK: Final = "clock"
STOP: Final = "stop"
_AGAIN: Final = "run the same command again"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJobRequest:
    """No secret in it: a machine signs with the role of its job. `engine` to `task` are those of the deployment's
    record: they decide how it is asked.
    """

    endpoint: str
    engine: str
    handler: str
    template: str
    task: str
    form: RequestForm
    limits: RunLimits
    timeout: float
    seed: int
    self_test: bool = True
    patience: float = 600.0
    """Seconds without a word from lmi after which a machine ends: no lmi waits for it any more."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMachineState:
    """A machine that runs. `clock_low` and `clock_high`: S3's clock is ahead of its own by so many seconds."""

    number: int
    provenance: Provenance
    clock_low: float
    clock_high: float

    @property
    def words(self) -> str:
        skew, error = (self.clock_low + self.clock_high) / 2, (self.clock_high - self.clock_low) / 2
        one = self.provenance
        clock = f"S3's clock {skew * 1000:+.0f} ms (± {error * 1000:.0f} ms)"
        return f"{one.machine}, {one.python}, {one.cpus} CPUs, {one.tool}; {clock}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLoad:
    """The next load; None: there is no other."""

    load: Load | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStart:
    """Seconds since 1970 on S3's clock."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProgress:
    """Of a load that runs; see RunProgress."""

    load: int
    elapsed: float
    seconds: float
    completed: int
    failed: int
    in_flight: int
    is_warming: bool
    latency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResult:
    """All of a run but its requests. `origin` as in MachineRun; `late`: seconds after the start at which it began."""

    client: ClientFigures
    began: str
    warm_at: float | None
    kept_until: float | None
    interrupted: bool
    ended: str
    origin: float
    late: float
    load: Load


def machine_key(number: int) -> str:
    return f"machines/{number}.json"


def load_key(load: int) -> str:
    return f"loads/{load}.json"


def ready_key(load: int, machine: int) -> str:
    return f"ready/{load}/{machine}.json"


def start_key(load: int) -> str:
    return f"starts/{load}.json"


def progress_key(machine: int) -> str:
    return f"progress/{machine}.json"


def result_key(load: int, machine: int) -> str:
    return f"results/{load}/{machine}.json"


def records_key(load: int, machine: int) -> str:
    return f"results/{load}/{machine}.jsonl.gz"


def packed(message: Any) -> bytes:
    return json.dumps(dataclass_json.dump(message), ensure_ascii=False).encode()


def unpacked(kind: type[T], content: bytes, where: str) -> T:
    """IntegrityError if it is none of this lmi's."""
    try:
        return dataclass_json.load(kind, json.loads(content))
    except ValueError as reason:
        raise IntegrityError(f"{where}: not a message of this lmi: {reason}", hint=_AGAIN) from None


def packed_requests(requests: Iterable[BenchRequest]) -> bytes:
    return b"".join(packed(one) + b"\n" for one in requests)


def unpacked_requests(content: bytes, where: str) -> tuple[BenchRequest, ...]:
    return tuple(unpacked(BenchRequest, line, where) for line in content.splitlines())


def packed_records(records: Sequence[RequestRecord]) -> bytes:
    text = head_line("load") + "".join(record_lines("load", records))
    return gzip.compress(text.encode(), compresslevel=3, mtime=0)


def machine_run(result: MachineResult, records: bytes, where: str) -> MachineRun:
    """IntegrityError if the requests cannot be read."""
    try:
        lines = gzip.decompress(records).decode().splitlines(keepends=True)
    except (OSError, EOFError, ValueError) as reason:
        raise IntegrityError(f"{where}: damaged: {reason}", hint=_AGAIN) from None
    found = read_records(lines, where).get("load", ())
    run = RunResult(
        settings=RunSettings(load=result.load),
        records=found,
        client=result.client,
        began=result.began,
        warm_at=result.warm_at,
        kept_until=result.kept_until,
        interrupted=result.interrupted,
    )
    return MachineRun(result=run, origin=result.origin)


def summed(notes: Sequence[MachineProgress]) -> RunProgress:
    """Of all machines together; the latency is the mean of theirs."""
    return RunProgress(
        elapsed=max(one.elapsed for one in notes),
        seconds=min(one.seconds for one in notes),
        completed=sum(one.completed for one in notes),
        failed=sum(one.failed for one in notes),
        in_flight=sum(one.in_flight for one in notes),
        is_warming=any(one.is_warming for one in notes),
        latency=sum(one.latency for one in notes) / len(notes),
    )
