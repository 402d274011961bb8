"""The machines of a load job in a fake account: each look at the job lets them go on as far as lmi has allowed."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.bench.load_job_messages import (
    CLOCK,
    GivenLoad,
    LoadMachineState,
    MachineResult,
    load_key,
    machine_key,
    packed,
    packed_records,
    ready_key,
    records_key,
    result_key,
    start_key,
    unpacked,
)
from lmi_deploy.bench.load_share import LoadShare
from lmi_deploy.bench.report import Provenance
from lmi_deploy.domain.sagemaker.transfer_job import load_prefix
from lmi_deploy.ports.object_store import ObjectStore
from tests.support.bench_runs import BEGAN, HEALTHY, closed_run

MACHINE = Provenance(tool="lmi", python="CPython 3.11", machine="Linux", cpus=4, clock="a clock")
REQUESTS = 20
"""Of each machine and load."""


def let_machines_work(store: ObjectStore, job: str, machines: int) -> None:
    """What each of them writes next."""
    prefix = load_prefix(job)
    if store.get(prefix + CLOCK) is None:
        return
    for number in range(machines):
        state = LoadMachineState(
            number=number, provenance=MACHINE, clock_low=0.01 * number, clock_high=0.01 * number + 0.002
        )
        store.put(prefix + machine_key(number), packed(state))
    load = 0
    while (given := store.get(prefix + load_key(load))) is not None:
        for number in range(machines):
            _send(
                store,
                prefix,
                load,
                unpacked(GivenLoad, given[0], "load"),
                LoadShare(number=number, machines=machines),
            )
        load += 1


def _send(store: ObjectStore, prefix: str, number: int, given: GivenLoad, share: LoadShare) -> None:
    if given.load is None:
        return
    if store.get(prefix + start_key(number)) is None:
        store.put(prefix + ready_key(number, share.number), b"{}")
        return
    part = share.load(given.load)
    run = closed_run(0.1, concurrency=part.concurrency or 1, requests=REQUESTS, client=HEALTHY)
    origin = 1000.0 * share.number
    records = [
        replace(one, scheduled=one.scheduled + origin, sent=one.sent + origin, end=one.end + origin)
        for one in run.records
    ]
    result = MachineResult(
        client=HEALTHY,
        began=BEGAN,
        warm_at=origin,
        kept_until=None,
        interrupted=False,
        ended="the requests are sent",
        origin=origin,
        late=0.0,
        load=part,
    )
    store.put(prefix + records_key(number, share.number), packed_records(records))
    store.put(prefix + result_key(number, share.number), packed(result))
