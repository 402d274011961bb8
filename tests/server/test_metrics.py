"""GET /server/metrics: the counters, beyond those of the recording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.running_server import serving, write_model

pytestmark = pytest.mark.worker


def test_metrics_count_responses_refusals_and_queue_times(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS), environ={"SERVING_PROMETHEUS": "true"}) as served:
        for requests in (
            {"do": "echo", "text": "x"},
            {"do": "stream", "count": 2},
            {"do": "nonsense"},
            {"do": "exit"},
        ):
            served.post(requests)
        served.get("/ping")
        output = served.get("/server/metrics")[1].decode()
        some = served.get("/server/metrics?name[]=WlmError&name[]=StartupLatency&name[]=Nothing")[1].decode()
    counts = dict(re.findall(r"^(\w+)\{[^}]*\} ([\d.]+)$", output, re.MULTILINE))
    assert {name: counts[name] for name in counts if name.startswith(("Response", "Wlm"))} == {
        "Response_2XX_total": "2.0",
        "Response_4XX_total": "1.0",
        "Response_5XX_total": "1.0",
        "WlmError_total": "1.0",
    }
    assert counts["QueueTime_count"] == counts["RequestLatency_count"] == "4"
    assert float(counts["RequestLatency_sum"]) >= float(counts["QueueTime_sum"])
    assert re.findall(r"^# TYPE (\w+) (\w+)", some, re.MULTILINE) == [
        ("StartupLatency", "gauge"),
        ("WlmError_total", "counter"),
    ]


def test_metrics_are_disabled_by_default(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        status, body = served.get("/server/metrics")
    assert status == 400
    assert b"set SERVING_PROMETHEUS environment var to true" in body
