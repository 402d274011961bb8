"""`lmi bench` against servers whose behaviour is known."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.load_share import LoadShare
from lmi_deploy.bench.merged_runs import MachineRun, merged_run
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.bench.report_layouts import LAYOUTS
from lmi_deploy.bench.request_records import RequestRecord, RunResult
from lmi_deploy.bench.request_records_file import read_records
from lmi_deploy.bench.request_target import RequestForm, openai_target
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.bench.run_sequence import MeasuredLoad, Measurement, measure
from lmi_deploy.cli.report_outputs import LAYOUT_NAMES
from tests.support.local_app import LocalApp

TOKENS = 5
CLOSING = count()


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class Server(BaseHTTPRequestHandler):
    """A request's prompt says what it gets."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][0]["content"]
        if prompt == "throttled":
            self._whole(429, {"error": {"message": "slow down"}})
        elif prompt == "unavailable":
            self._whole(503, {"error": {"message": "no workers"}})
        elif prompt == "closed" or (prompt == "sometimes closed" and next(CLOSING) % 4 == 3):
            self.close_connection = True
        elif prompt == "secret" and "Authorization" not in self.headers:
            self._whole(401, {"error": {"message": "no key"}})
        elif prompt == "page":
            self._whole(200, {"not": "this"}, "text/html; charset=utf-8")
        elif prompt == "broken":
            self._stream(ends="broken")
        elif prompt == "cut":
            self._stream(ends="cut")
        elif body.get("stream"):
            self._stream(ends="early" if prompt == "short" else "well")
        else:
            usage = {"completion_tokens": TOKENS}
            self._whole(
                200, {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage}
            )

    def _whole(self, status: int, value: dict[str, Any], kind: str = "application/json") -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, *, ends: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [event({"content": "a"}) for _ in range(TOKENS)]
        if ends == "well":
            events += [event({}, "stop"), b"data: [DONE]\n\n"]
        elif ends == "broken":
            events += [b'data: {"error": {"message": "out of memory"}}\n\n']
        for each in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(each), each))
            self.wfile.flush()
        if ends == "cut":
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def report_of(path: str = "bench.json") -> Report:
    return from_json(Path(path).read_text(encoding="utf-8"), path)


def test_streams_are_measured_and_the_report_is_written(app: LocalApp, url: str) -> None:
    ran = app.lmi(
        "bench", "--url", url, "--model", "m", "-c", "2", "--requests", "40", "--warmup", "4", "--json"
    )
    report = report_of()
    (point,) = report.points
    assert ran.result["points"] == 1, ran.err
    assert (point.counts.succeeded, point.counts.failed, point.counts.warmup >= 4) == (40, 0, True)
    assert point.counts.output_tokens == 40 * TOKENS
    assert point.metrics["ttft"].n == 40
    assert point.client.self_test_error is not None


def test_each_load_is_a_point_and_errors_are_counted_by_class(app: LocalApp, url: str) -> None:
    Path("p.txt").write_text("hello\n" * 3 + "throttled\n")
    app.lmi(
        *(
            "bench",
            "run",
            "--url",
            url,
            "--prompts",
            "p.txt",
            "--no-stream",
            "--rate",
            "200",
            "--rate",
            "400",
        ),
        *("--requests", "40", "--warmup", "0", "-o", "r.json"),
    )
    points = report_of("r.json").points
    assert [(point.load.rate, point.counts.errors) for point in points] == [
        (200.0, {"http_429": 10}),
        (400.0, {"http_429": 10}),
    ]
    assert all(point.metrics["e2e"].n == 30 for point in points)


def test_stream_that_ends_early_failed_and_was_not_fast(app: LocalApp, url: str) -> None:
    Path("p.txt").write_text("hello\n" * 3 + "short\n")
    app.lmi("bench", "--url", url, "--prompts", "p.txt", "--requests", "40", "--warmup", "0")
    (point,) = report_of().points
    assert point.counts.errors == {"truncated": 10}
    assert point.counts.truncated == 10


def test_failed_objective_exits_with_7_and_wrong_lengths_are_invalid(app: LocalApp, url: str) -> None:
    common = ("bench", "--url", url, "--no-stream", "-c", "4", "--requests", "60", "--warmup", "0")
    missed = app.lmi(*common, "--objective", "error_rate=0.000001")
    assert missed.code in (0, 7)  # UNDECIDED, unless a busy machine makes the point INVALID
    strict = app.lmi(*common, "--objective", "error_rate=0.000001", "--undecided", "fail")
    assert strict.code in (7, 8)
    assert "UNDECIDED" in strict.err or "INVALID" in strict.err
    failed = app.lmi(*common, "--objective", "p50_ms=0.001")
    assert failed.code == 7
    assert failed.out.splitlines()[-1].startswith(("FAIL", "INVALID"))  # people read the conclusion, too
    for prompt, objective, code in (("hello", "p50_ms=0.001", 7), ("throttled", "p50_ms=9000", 1)):
        ran = app.lmi(*common, "--prompt", prompt, "--objective", objective, "--json")
        results = [line for line in ran.lines if line["event"] == "result"]
        assert [(line["ok"], line["error"]["exit_code"]) for line in results] == [(False, code)]
    app.lmi(*common, "--exact", "--output-tokens", "9")
    checks = {check.name: check.state for check in report_of().points[0].checks}
    assert checks["output_length"] == "invalid"


def test_server_that_refuses_ends_the_run_with_the_numbers_kept(app: LocalApp, url: str) -> None:
    ran = app.lmi("bench", "--url", url, "--prompt", "throttled", "-c", "4", "--duration", "60")
    assert ran.code == 1
    assert "no request succeeded (http_429)" in ran.err
    assert report_of().points[0].counts.failed + report_of().points[0].counts.warmup >= 20


@pytest.mark.parametrize(
    ("prompt", "error"),
    [("closed", "connection_cut"), ("cut", "connection_cut"), ("unavailable", "http_503")],
)
def test_server_that_fails_now_and_then_is_counted_by_class_and_the_run_goes_on(
    app: LocalApp, url: str, prompt: str, error: str
) -> None:
    Path("p.txt").write_text("hello\n" * 3 + f"{prompt}\n")
    app.lmi("bench", "--url", url, "--prompts", "p.txt", "-c", "4", "--requests", "80", "--warmup", "0")
    (point,) = report_of().points
    assert point.counts.errors == {error: 20}
    assert (point.counts.succeeded, point.metrics["e2e"].n) == (60, 60)


def test_error_inside_a_stream_stops_the_run(app: LocalApp, url: str) -> None:
    ran = app.lmi("bench", "--url", url, "--prompt", "broken", "-c", "4", "--duration", "60")
    assert ran.code == 1
    assert "no request succeeded (stream_error)" in ran.err
    assert "requests failed (stream_error out of memory)" in ran.err


def records_of(path: str) -> tuple[RequestRecord, ...]:
    with open(path, encoding="utf-8") as file:
        (records,) = read_records(file, path).values()
    return records


def test_each_request_is_a_line_of_the_records(app: LocalApp, url: str) -> None:
    Path("p.txt").write_text("hello\n" * 3 + "throttled\n")
    app.lmi(
        *("bench", "--url", url, "--prompts", "p.txt", "--requests", "40", "--warmup", "0"),
        *("--records", "r.jsonl"),
    )
    records = records_of("r.jsonl")
    assert [one.number for one in records] == [*range(40)]
    assert [one.error for one in records].count("http_429") == 10
    good = [one for one in records if not one.error]
    assert all(len(one.arrivals) == one.output_tokens == TOKENS for one in good)
    assert all(one.sent <= one.arrivals[0] <= one.arrivals[-1] <= one.end for one in good)


def test_each_request_is_a_row_of_parquet(app: LocalApp, url: str) -> None:
    Path("p.txt").write_text("hello\n" * 3 + "throttled\n")
    app.lmi(
        *("bench", "--url", url, "--prompts", "p.txt", "--requests", "40", "--warmup", "0", "-c", "1"),
        *("-c", "2", "--records", "r.parquet"),
    )
    table = parquet.read_table("r.parquet")
    rows = table.to_pylist()
    assert [row["number"] for row in rows] == [*range(40)] * 2
    assert {row["point"] for row in rows} == {"concurrency=1", "concurrency=2"}
    assert [row["error"] for row in rows].count("http_429") == 20
    good = [row for row in rows if not row["error"]]
    assert all(len(row["arrivals"]) == row["output_tokens"] == TOKENS for row in good)
    assert all(row["input_tokens"] is None for row in good)
    assert json.loads(table.schema.metadata[b"lmi"])["schema"] == "lmi-bench-records"


def test_disk_that_is_full_before_the_run_refuses_it(app: LocalApp, url: str) -> None:
    ran = app.lmi("bench", "--url", url, "--requests", "4", "--records", "/dev/full")
    assert (ran.code, "/dev/full: No space left on device" in ran.err) == (2, True)


def test_disk_that_fills_up_costs_the_records_and_not_the_report(app: LocalApp, url: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))  # the system then says: File too large
    try:
        ran = app.lmi(
            *("bench", "--url", url, "--no-stream", "-c", "2", "-c", "4"),
            *("--requests", "300", "--warmup", "0"),
            *("--records", "r.jsonl"),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ran.code == 2
    assert "r.jsonl: File too large: only the loads before it are complete, 300 requests" in ran.err
    assert [point.counts.succeeded for point in report_of().points] == [300, 300]
    with open("r.jsonl", encoding="utf-8") as file:
        assert (
            len(read_records(file, "r.jsonl")["concurrency=2"]) == 300
        )  # the line that was cut does not matter


@pytest.fixture
def full_disk() -> Callable[[str], None]:
    """The next report of that path does not fit: /dev/full says that the disk is full."""

    def fill(path: str) -> None:
        place = Path(path)
        place.with_name(f".{place.name}.part").symlink_to("/dev/full")

    return fill


def test_disk_that_is_full_for_the_report_leaves_the_old_one_and_prints_the_tables(
    app: LocalApp, url: str, full_disk: Callable[[str], None]
) -> None:
    common = ("bench", "--url", url, "--no-stream", "--warmup", "0", "--requests")
    assert app.lmi(*common, "20").code == 0
    full_disk("bench.json")
    ran = app.lmi(*common, "30")
    assert (ran.code, "bench.json: No space left on device" in ran.err) == (2, True), ran.err
    assert "bench.json: replaces the report of an earlier run" in ran.err
    assert "Latency in milliseconds, end to end" in ran.out
    assert report_of().points[0].counts.sent == 20
    assert not [each.name for each in Path().iterdir() if each.name.endswith(".part")]


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.join()


def test_report_of_a_run_is_shown_in_the_columns_of_an_experiment(app: LocalApp, url: str) -> None:
    assert {*LAYOUT_NAMES} == {"summary", *LAYOUTS}
    app.lmi(
        *("bench", "--url", url, "--no-stream", "-c", "1", "-c", "2"), *("--requests", "20", "--warmup", "0")
    )
    shown = app.lmi("bench", "report", "bench.json", "--layout", "sweep", "--markdown", "r.md")
    assert shown.code == 0, shown.err
    table = next(line for line in Path("r.md").read_text().splitlines() if "| c | QPS |" in line)
    assert "| max | min | mean |" in table
    for layout in LAYOUT_NAMES:
        assert app.lmi("bench", "report", "bench.json", "--layout", layout).code == 0


def test_run_itself_reports_in_the_columns_of_an_experiment(app: LocalApp, url: str) -> None:
    asked = ("bench", "--url", url, "--no-stream", "--requests", "20", "--warmup", "0", "--layout", "sweep")
    ran = app.lmi(*asked, "--markdown", "r.md")
    assert ran.code == 0, ran.err
    assert "| c | QPS |" in Path("r.md").read_text()
    assert report_of().layout == "sweep"  # so `lmi bench report` keeps it
    assert "| c | QPS |" not in _markdown_of(app, "summary")
    assert "| c | QPS |" in _markdown_of(app)


def _markdown_of(app: LocalApp, layout: str = "") -> str:
    asked = ("--layout", layout) if layout else ()
    assert app.lmi("bench", "report", "bench.json", *asked, "--markdown", "again.md").code == 0
    return Path("again.md").read_text()


def test_unknown_layout_is_refused_before_anything_is_sent(app: LocalApp, url: str) -> None:
    ran = app.lmi("bench", "--url", url, "--requests", "1", "--layout", "grit")
    assert ran.code == 2
    assert "grit" in ran.err
    assert not Path("bench.json").exists()


def test_interrupt_writes_the_report_of_what_was_measured(app: LocalApp, url: str) -> None:
    with interrupted_after(4.0):
        ran = app.lmi("bench", "--url", url, "--warmup", "0", "--duration", "60")
    assert "interrupted" in ran.err
    report = report_of()
    assert report.interrupted
    assert report.points[0].counts.succeeded > 0


def test_search_reports_each_step_and_the_highest_rate(app: LocalApp, url: str) -> None:
    common = ("bench", "--url", url, "--no-stream", "--warmup", "0", "--requests", "12", "--find", "max-rate")
    ran = app.lmi(*common, "--rate", "20", "--steps", "2", "--objective", "p50_ms=5000")
    report = report_of()
    assert report.search is not None
    # Each step that meets it doubles the rate; one that a busy machine made INVALID halves it.
    second = 40.0 if report.points[0].is_valid else 10.0
    assert [point.load.rate for point in report.points] == [20.0, second], ran.err
    assert report.search.state == "UNDECIDED"
    assert f"UNDECIDED: {report.search.text}" in ran.out
    missed = app.lmi(*common, "--rate", "20", "--steps", "2", "--objective", "p50_ms=0.01")
    if all(point.is_valid for point in report_of().points):
        assert missed.code == 7
        assert "no rate from 10 requests/s meets p50_ms <= 0.01 (2 steps)" in missed.err


@pytest.mark.parametrize(
    ("argv", "asked", "sent"),
    [
        (("--rate", "20", "--ramp-to", "80", "--arrivals", "constant"), [23, 29, 35, 41, 47], 100),
        (("-c", "1", "--ramp-to", "4"), [1, 2, 3, 4], 20),
    ],
)
def test_load_that_rises_is_reported_part_by_part(
    app: LocalApp, url: str, argv: tuple[str, ...], asked: list[float], sent: int
) -> None:
    ran = app.lmi("bench", "--url", url, "--no-stream", "--warmup", "5", "--duration", "2", *argv)
    (point,) = report_of().points
    slices = point.ramp
    assert [one.asked for one in slices[: len(asked)]] == pytest.approx(asked, rel=0.02), ran.err
    assert point.counts.sent == sum(one.sent for one in slices) >= sent * 0.9
    assert point.counts.warmup >= 5
    if "--rate" in argv:
        assert point.counts.sent == pytest.approx(100, abs=4)
        assert slices[-1].sent > 2 * slices[0].sent
    assert f"Ramp {point.name}" in ran.out
    assert app.lmi("bench", "report", "bench.json", "--html", "r.html").code == 0
    assert f"Ramp {point.name}" in Path("r.html").read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--ramp-steps", "3"), "--ramp-steps has no effect without --ramp-to"),
        (("--ramp-to", "4", "--requests", "9"), "--ramp-to and --requests cannot be combined"),
        (("--ramp-to", "4", "--objective", "p50_ms=1"), "--ramp-to and --objective cannot be combined"),
        (("--ramp-to", "4", "--find", "knee"), "--ramp-to and --find cannot be combined"),
        (("--ramp-to", "4", "-c", "1", "-c", "2"), "--ramp-to takes one --concurrency"),
        (("--ramp-to", "1"), "a ramp from 1 to 1 is none"),
    ],
)
def test_ramp_that_cannot_be_is_refused(app: LocalApp, argv: tuple[str, ...], words: str) -> None:
    ran = app.lmi("bench", "--url", "http://127.0.0.1:1", *argv)
    assert (ran.code, words in ran.err) == (2, True), ran.err


def test_interrupted_search_keeps_its_steps(app: LocalApp, url: str) -> None:
    with interrupted_after(4.0):
        app.lmi("bench", "--url", url, "--warmup", "0", "--find", "knee", "--duration", "60")
    report = report_of()
    assert report.interrupted
    assert report.search is not None
    assert (report.search.state, len(report.search.steps)) == ("UNDECIDED", 1)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--find", "max-rate"), "--find max-rate needs an --objective"),
        (("--max-cost", "1"), "--max-cost and --url cannot be combined"),
        (("--find", "max-rate", "-c", "2", "--objective", "p50_ms=1"), "--find max-rate and --concurrency"),
        (("--find", "max-rate", "--rate", "1", "--rate", "2", "--objective", "p50_ms=1"), "takes one --rate"),
        (("--find", "knee", "--objective", "p50_ms=1"), "--find knee takes no --objective"),
        (("--find", "knee", "--rate", "1"), "--find knee and --rate cannot be combined"),
    ],
)
def test_search_that_cannot_be_is_refused(app: LocalApp, argv: tuple[str, ...], words: str) -> None:
    ran = app.lmi("bench", "--url", "http://127.0.0.1:1", *argv)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--url", "nowhere"), "not an http or https address"),
        (
            ("--url", "http://127.0.0.1:1", "-c", "1", "--rate", "1"),
            "--concurrency and --rate cannot be combined",
        ),
        (("--url", "http://127.0.0.1:1", "--exact"), "--exact needs a length"),
        (("--url", "http://127.0.0.1:1", "--replay"), "not every request"),
        (("--url", "http://127.0.0.1:1", "--objective", "p99=1"), "p99 is no objective"),
        (("--url", "http://127.0.0.1:1", "--prompts", "none.txt"), "none.txt: No such file"),
        (("--url", "http://127.0.0.1:1", "-o", "none/x.json"), "No such file or directory"),
        (("tiny", "--url", "http://127.0.0.1:1"), "NAME and --url cannot be combined"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_sent(
    app: LocalApp, argv: tuple[str, ...], words: str
) -> None:
    ran = app.lmi("bench", *argv)
    assert ran.code == 2
    assert words in ran.err


def test_absent_deployment_is_reported(app: LocalApp) -> None:
    ran = app.lmi("bench", "tiny")
    assert ran.code == 1
    assert "tiny" in ran.err


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_deployment_is_measured_by_its_name(app: LocalApp, stream: str) -> None:
    assert app.lmi("up", "--yes").code == 0
    ran = app.lmi("bench", "tiny", stream, "--requests", "30", "--warmup", "0")
    report = report_of()
    (point,) = report.points
    assert (point.counts.succeeded, point.counts.output_tokens) == (30, 60), ran.err
    assert point.settings["model"] == "org/tiny"
    assert report.provenance.details["deployment"] == "tiny"
    assert not point.client.endpoint_changed


def test_trace_keeps_each_request_at_its_time(app: LocalApp, url: str) -> None:
    rows = [{"prompt": "throttled" if n < 5 else "hello", "at": 10 + n / 20} for n in range(20)]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    app.lmi("bench", "--url", url, "--prompts", "t.jsonl", "--replay", "--no-stream", "--json")
    (point,) = report_of().points
    assert (point.counts.sent, point.counts.failed, point.load.rate) == (20, 5, None)
    failed = [part for part in point.timeline if part.failed]
    good = [part for part in point.timeline if part.completed]
    assert failed[-1].begin < good[0].begin  # the first five of the trace, although the file has them last


def jumping(seconds: float) -> Callable[[], float]:
    """A wall clock that is set forward (or back) after its first reading."""
    began, readings = time.monotonic(), count()
    return lambda: 1e9 + time.monotonic() - began + (seconds if next(readings) >= 2 else 0.0)


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_wall_clock_that_jumps_in_the_run_is_reported_and_moves_no_latency(url: str, jump: float) -> None:
    report = measure(
        Measurement(
            name="m",
            target=openai_target(url, "m", None),
            requests=[BenchRequest(prompt="hello")],
            form=RequestForm(stream=False),
            loads=[Load(kind="open", rate=50.0, arrivals="constant")],
            limits=RunLimits(seconds=5, requests=40, warmup_requests=5),
            timeout=10,
            self_test=False,
            wall=jumping(jump),
        ),
        lambda progress: None,
    )
    (point,) = report.points
    (check,) = [check for check in point.checks if check.name == "clock"]
    assert (check.state, f"jumped by {jump:+.1f} s" in check.text) == ("warning", True)
    assert 0 < point.metrics["e2e"].least <= point.metrics["e2e"].greatest < 60
    assert point.rate("requests_per_s") == pytest.approx(50, rel=0.2)


def test_server_that_is_replaced_in_the_run_makes_it_invalid(url: str) -> None:
    servers = iter(("g1", "g2"))
    report = measure(
        Measurement(
            name="m",
            target=openai_target(url, "m", None),
            requests=[BenchRequest(prompt="hello")],
            form=RequestForm(),
            loads=[Load(kind="closed", concurrency=1)],
            limits=RunLimits(seconds=5, requests=5, warmup_requests=0),
            timeout=10,
            self_test=False,
            server=lambda: next(servers),
        ),
        lambda progress: None,
    )
    (check,) = [check for check in report.points[0].checks if check.name == "endpoint"]
    assert (check.state, "g1 was replaced by g2" in check.text) == ("invalid", True)


@pytest.mark.parametrize(
    "load",
    [Load(kind="open", rate=200.0, arrivals="poisson"), Load(kind="closed", concurrency=4)],
    ids=["open", "closed"],
)
def test_machines_together_send_the_requests_of_one_machine(url: str, load: Load) -> None:
    """Each measures its share; of an open loop also the times are those of the whole schedule."""

    def measured(share: LoadShare) -> RunResult:
        results: list[MeasuredLoad] = []
        measure(
            Measurement(
                name="m",
                target=openai_target(url, "m", None),
                requests=[BenchRequest(prompt="x" * 10**number) for number in range(4)],
                form=RequestForm(stream=False),
                loads=[load],
                limits=RunLimits(seconds=20, requests=40, warmup_requests=0),
                timeout=10,
                self_test=False,
                share=share,
            ),
            lambda progress: None,
            results.append,
        )
        return results[0].result

    def schedule(run: RunResult) -> list[float]:
        begin = run.records[0].scheduled
        return [record.scheduled - begin for record in run.records]

    whole = measured(LoadShare())
    runs = [measured(LoadShare(number=number, machines=2)) for number in range(2)]
    # The first request of a Poisson schedule is at its start, the second one is the first of the other machine.
    starts = [0.0, schedule(whole)[1]] if load.kind == "open" else [0.0, 0.0]
    machines = [
        MachineRun(result=run, origin=run.records[0].scheduled - at)
        for run, at in zip(runs, starts, strict=True)
    ]
    merged = merged_run(machines, whole.settings).result
    sizes = [sorted(record.sent_bytes for record in run.records) for run in (whole, merged)]
    assert sizes[0] == sizes[1] if load.kind == "open" else len(sizes[1]) <= 40
    if load.kind == "open":
        assert schedule(merged) == pytest.approx(schedule(whole), abs=1e-6)
        assert merged.kept_until is None
    else:
        assert [run.settings.load.concurrency for run in runs] == [2, 2]
        assert merged.kept_until is not None


def test_requests_dropped_with_their_connection_are_reported(app: LocalApp, url: str) -> None:
    prompt = ("--prompt", "sometimes closed", "--no-stream", "--requests", "40", "--warmup", "0")
    ran = app.lmi("bench", "--url", url, "--model", "m", *prompt)
    (point,) = report_of().points
    resent = point.client.resent
    assert resent is not None
    assert resent + point.counts.failed >= 9
    assert f"{resent} requests sent again, of 40: the server closed a connection" in ran.out
    assert {one.state for one in point.checks if one.name == "connections"} == {"warning"}


def test_web_page_is_no_answer(app: LocalApp, url: str) -> None:
    ran = app.lmi(
        "bench", "--url", url, "--model", "m", "--prompt", "page", "--requests", "9", "--warmup", "0"
    )
    assert (ran.code, report_of().points[0].counts.succeeded) == (1, 0), ran.err
    assert '200: {"not": "this"}' in ran.err
    assert "correct --url, --model or the request" in ran.err


def test_missing_key_is_named(app: LocalApp, url: str) -> None:
    asked = ("--url", url, "--model", "m", "--prompt", "secret", "--requests", "9", "--warmup", "0")
    ran = app.lmi("bench", *asked)
    assert (ran.code, "LMI_BENCH_API_KEY" in ran.err, "no key" in ran.err) == (1, True, True), ran.err
