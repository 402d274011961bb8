"""What lmi and the machines of a load job write for each other is read back as it was."""

from __future__ import annotations

import json

import pytest

from lmi_deploy.bench.load import Load, Ramp
from lmi_deploy.bench.load_job_messages import (
    GivenLoad,
    LoadJobRequest,
    LoadMachineState,
    MachineProgress,
    MachineResult,
    machine_run,
    packed,
    packed_records,
    packed_requests,
    summed,
    unpacked,
    unpacked_requests,
)
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import Provenance
from lmi_deploy.bench.request_target import RequestForm
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.domain.inference_http import ImageFile
from lmi_deploy.errors import IntegrityError
from tests.support.bench_runs import BEGAN, HEALTHY, open_run

REQUEST = LoadJobRequest(
    endpoint="chat",
    engine="vllm",
    handler="djl_python.lmi_vllm",
    template="",
    task="text-generation",
    form=RequestForm(output_tokens=10, exact=True, parameters={"temperature": 0, "stop": ["a"]}),
    limits=RunLimits(seconds=30, requests=100),
    timeout=120.0,
    seed=7,
)
PROGRESS = MachineProgress(
    load=0, elapsed=5.0, seconds=4.0, completed=10, failed=1, in_flight=2, is_warming=False, latency=0.2
)


@pytest.mark.parametrize(
    "message",
    [
        REQUEST,
        GivenLoad(load=None),
        GivenLoad(load=Load(kind="closed", concurrency=4)),
        GivenLoad(load=Load(kind="open", rate=2.5, arrivals="poisson", ramp=Ramp(to=9.0, seconds=60.0))),
        PROGRESS,
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_are_read_back(message: object) -> None:
    assert unpacked(type(message), packed(message), "here") == message


def test_requests_of_every_kind_are_read_back() -> None:
    requests = (
        BenchRequest(prompt="a\nb ü", output_tokens=5, at=1.5),
        BenchRequest(body=b"\x00\xff", content_type="application/octet-stream", items=3),
        BenchRequest(
            prompt="c", images=(ImageFile("image/png", b"\x89PNG"),), input_tokens=4, asked_input_tokens=4
        ),
    )
    assert unpacked_requests(packed_requests(requests), "here") == requests


def test_result_of_a_machine_is_its_run() -> None:
    run = open_run(10, requests=50, tokens=3, client=HEALTHY, warm_at=0.5)
    result = MachineResult(
        client=run.client,
        began=BEGAN,
        warm_at=run.warm_at,
        kept_until=None,
        interrupted=False,
        ended="the time is over",
        origin=12.5,
        late=0.0,
        load=run.settings.load,
    )
    found = machine_run(unpacked(MachineResult, packed(result), "here"), packed_records(run.records), "here")
    assert (found.origin, found.result.client, found.result.warm_at) == (12.5, HEALTHY, 0.5)
    assert len(found.result.records) == 50
    for record, before in zip(found.result.records, run.records, strict=True):
        assert (record.sent, record.end) == (
            pytest.approx(before.sent, abs=1e-6),
            pytest.approx(before.end, abs=1e-6),
        )
        assert record.output_tokens == before.output_tokens


@pytest.mark.parametrize("content", [b"", b"[]", b'{"load": 7}', json.dumps({"endpoint": "x"}).encode()])
def test_damaged_message_names_its_place(content: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"loads/0\.json: not a message of this lmi"):
        unpacked(LoadJobRequest, content, "loads/0.json")


def test_damaged_records_name_their_place() -> None:
    result = MachineResult(
        client=HEALTHY,
        began=BEGAN,
        warm_at=None,
        kept_until=None,
        interrupted=False,
        ended="",
        origin=0.0,
        late=0.0,
        load=Load(kind="closed", concurrency=1),
    )
    whole = packed_records(open_run(10, requests=5).records)
    with pytest.raises(IntegrityError, match=r"results/0/1\.jsonl\.gz: damaged"):
        machine_run(result, whole[:-20], "results/0/1.jsonl.gz")


def test_progress_of_all_machines_is_that_of_one() -> None:
    other = MachineProgress(
        load=0, elapsed=6.0, seconds=3.0, completed=20, failed=0, in_flight=3, is_warming=True, latency=0.4
    )
    found = summed([PROGRESS, other])
    assert (found.completed, found.failed, found.in_flight, found.is_warming) == (30, 1, 5, True)
    assert (found.elapsed, found.seconds, found.latency) == (6.0, 3.0, pytest.approx(0.3))


def test_machine_says_what_it_is_and_how_far_its_clock_differs() -> None:
    provenance = Provenance(tool="lmi 1", python="CPython 3.11", machine="Linux", cpus=4, clock="")
    state = LoadMachineState(number=1, provenance=provenance, clock_low=-0.020, clock_high=-0.010)
    assert state.words == "Linux, CPython 3.11, 4 CPUs, lmi 1; S3's clock -15 ms (± 5 ms)"
