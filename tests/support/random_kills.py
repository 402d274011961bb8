"""Lifecycles of a deployment whose `lmi` processes get signals at random moments, by a seed.

A lifecycle is `up`, a changed `up` and `down` (of some kinds also a compile or a load job), each a process of its own
that gets a signal at a random moment (or, in a fault round, random faults of AWS); then the same commands run
undisturbed. They must converge and leave nothing. Two following seeds have the same kind, and run at the same time:
those on a shared endpoint share one.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from tests.support import own_server
from tests.support.container_image import image
from tests.support.emulator_process import TRUST, Emulated
from tests.support.fakes import model_files

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 240.0
"""Real seconds that one `lmi` may take on a busy machine."""
LOCK_SECONDS = "2"
"""How long a lock is valid without a renewal: a process that is suspended for longer loses it."""
SIGNALS = ("SIGKILL", "SIGINT", "SIGTERM", "SIGSTOP")
DIED = {"SIGKILL": (-9,), "SIGINT": (130,), "SIGTERM": (130,), "SIGSTOP": (1, 5)}
"""Exit codes of a process after a signal; 0 is always allowed: it had completed."""
BUG = 3
AT_WORK = 0.75
WORKING = 0.3
"""The share of the signals that are sent during the actions, and of the command's time that these take."""
_NOT_THERE = ("does not answer yet", "no such deployment is running")
_NOT_COMPILED = "its model is not compiled yet"
_TRACEBACK = "Traceback (most recent call last)"
PLAIN = """\
name: {name}
model_id: ./{name}
engine: accelerate
instance_type: ml.g5.xlarge
probe: {{body: '{{"inputs": "OK"}}', expect: OK}}
"""
SHARED = (
    PLAIN.replace("xlarge", "12xlarge")
    + "endpoint: {{share: {team}, component: {{accelerators: 1, memory_mb: 1024}}{more}}}\n"
)
OWN_CODE = """\
name: {name}
model_id: ./{name}
engine: custom
instance_type: ml.m5.xlarge
handler: {{file: model.py}}
probe: {{body: '{{"inputs": "OK"}}', expect: OK}}
"""
HANDLER = """\
from djl_python import Output

def handle(inputs):
    return None if inputs.is_empty() else Output().add("OK")
"""
COMPILER = """\
import pathlib, shutil, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
time.sleep(2)
shutil.copytree(given["--model"], given["--output"], dirs_exist_ok=True)
"""
OWN_IMAGE = """\
name: {name}
model_id: ./{name}
engine: custom
instance_type: ml.c5.xlarge
container: {{build: ./image, build_args: {{GREETING: {more}}}}}
probe: {{body: '{{"input": "ok"}}', expect: OK}}
"""
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"
REGIONS = ("us-east-1", "us-west-2")
"""Of some lives: the first has no capacity once."""
NO_CAPACITY: Mapping[str, Any] = {
    "method": "HOSTING",
    "do": {"answer": {"status": 400, "body": "Unable to provision: InsufficientInstanceCapacity"}},
}
BENCH = (
    "bench",
    "run",
    "{name}",
    "--prompts",
    "bodies.jsonl",
    "--via",
    "job",
    "--cloudwatch-wait",
    "0",
    "-c",
    "1",
)


@dataclass(frozen=True)
class Kind:
    """What is deployed: a recipe, and what the second `up` makes of it. `{name}` is the deployment's, `{team}` that of
    a shared endpoint. `also`: a command besides `up` and `down` that gets a signal: `compile` first, `bench` instead of
    the second `up`. `containers`: it needs an emulator that runs them.
    """

    first: str
    changed: tuple[str, ...]
    also: tuple[str, ...] = ()
    containers: bool = False

    @classmethod
    def adding(cls, first: str, *changed: str) -> Kind:
        return cls(PLAIN + first, tuple(PLAIN + one for one in changed))


_TRIED = "endpoint: {{count: 2, candidate: {{set: {{options.dtype: fp32}}, traffic_percent: %d}}}}\n"
KINDS: Mapping[str, Kind] = {
    "plain": Kind.adding(
        "",
        "options: {{dtype: fp32}}\n",
        "endpoint: {{count: 2}}\n",
        "endpoint: {{tags: {{team: blue}}}}\n",
        "endpoint: {{autoscaling: {{min: 1, max: 3, invocations_per_instance: 50}}}}\n",
        "options: {{dtype: fp16}}\nendpoint: {{tags: {{team: red}}}}\n",
        "weights: {{deliver: artifact}}\n",
    ),
    "shared": Kind(
        SHARED.replace("{more}", ""),
        (SHARED.replace("{more}", ", count: 2"), SHARED.replace("{more}", "") + "options: {{dtype: fp32}}\n"),
    ),
    "candidate": Kind.adding(
        _TRIED % 10, _TRIED % 30, "options: {{dtype: fp32}}\n", _TRIED.replace("fp32", "fp16") % 10
    ),
    "asynchronous": Kind.adding(
        "endpoint: {{asynchronous: {{}}}}\n", "endpoint: {{asynchronous: {{}}}}\noptions: {{dtype: fp32}}\n"
    ),
    "alarms": Kind.adding(
        f"endpoint: {{{{alarms: {{{{topic: '{TOPIC}'}}}}}}}}\n",
        f"endpoint: {{{{alarms: {{{{topic: '{TOPIC}', latency: {{{{threshold_ms: 5000}}}}}}}}}}}}\n",
        "options: {{dtype: fp32}}\n",
    ),
    "schedule": Kind.adding(
        "ttl: 14d\nendpoint: {{scheduler_role: lmi-scheduler}}\n",
        "ttl: 21d\nendpoint: {{scheduler_role: lmi-scheduler}}\n",
        "options: {{dtype: fp32}}\n",
    ),
    "regions": Kind.adding(
        "endpoint: {{regions: [us-east-1, us-west-2]}}\n",
        "endpoint: {{regions: [us-east-1, us-west-2], count: 2}}\n",
    ),
    "compile": Kind(
        OWN_CODE + "compile: {{script: compile.py, role: lmi-transfer-job}}\n",
        (OWN_CODE + "compile: {{script: compile.py, role: lmi-transfer-job}}\nendpoint: {{count: 2}}\n",),
        also=("compile", "recipe.yaml", "--yes"),
        containers=True,
    ),
    "load": Kind(OWN_CODE, (), also=BENCH, containers=True),
    "image": Kind(
        OWN_IMAGE.replace("{more}", "hello"), (OWN_IMAGE.replace("{more}", "bye"),), containers=True
    ),
}


def kind_of(seed: int, kinds: Sequence[str]) -> str:
    return kinds[(seed + 1) // 2 % len(kinds)]


@dataclass(frozen=True)
class Ran:
    argv: tuple[str, ...]
    code: int
    output: str


@dataclass
class Outcome:
    """`crashed` counts signals (or rounds of faults) that met a running process."""

    seed: int
    crashed: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def blame(self, what: str, result: Ran | None = None) -> None:
        output = (
            f"\n    $ lmi {' '.join(result.argv)}: exit {result.code}\n{_indented(result.output)}"
            if result
            else ""
        )
        self.wrong.append(f"seed {self.seed}: {what}{output}")


class KilledLifecycle:
    """One deployment with a name, a folder and a home of its own, in an account that may be shared."""

    def __init__(self, aws: Emulated, folder: Path, seed: int, kind: str = "plain") -> None:
        self.aws = aws
        self.name = f"life-{seed}"
        self.kind = KINDS[kind]
        self._team = f"team-{(seed + 1) // 2}"
        self.root = folder / self.name
        self.random = random.Random(seed)
        self.outcome = Outcome(seed)
        (self.root / self.name).mkdir(parents=True)
        for name, content in model_files(life=seed).items():
            (self.root / self.name / name).write_bytes(content)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LMI_"))}
        self._environ = {**kept, **aws.environment(self.root), "LMI_LOCK_SECONDS": LOCK_SECONDS}
        self._environ["LMI_CACHE_HOME"] = str(self.root / "cache")
        self.up = ("up", "recipe.yaml", "--yes")
        self.down = ("down", self.name, "--yes", "--purge", "--logs")
        (self.root / "model.py").write_text(HANDLER)
        (self.root / "compile.py").write_text(COMPILER)
        (self.root / "bodies.jsonl").write_text('{"body": {"inputs": "OK"}}\n')
        if kind == "image":
            self._environ |= {"LMI_CONTAINER_ENGINE": "podman"}
            (self.root / "image").mkdir()
            (self.root / "image" / "Dockerfile").write_text(
                f"FROM {image(Path(own_server.__file__))}\nARG GREETING\nLABEL greeting=$GREETING\n"
            )
        if kind == "schedule":
            aws.role("lmi-scheduler", trust=json.loads(json.dumps(TRUST).replace("sagemaker", "scheduler")))
            aws.allow_all("lmi-scheduler")
        if kind == "alarms":
            aws.client("sns").create_topic(Name=TOPIC.rpartition(":")[2])
        if kind == "regions":
            aws.fault({**NO_CAPACITY, "path": f"^/provision/{self.name}/", "times": 1})
        self.recipe(self.kind.first)

    def recipe(self, text: str) -> None:
        (self.root / "recipe.yaml").write_text(text.format(name=self.name, team=self._team))

    def steps(self) -> list[tuple[str, tuple[str, ...]]]:
        """Its recipes and commands: three or four."""
        first, also = self.kind.first, tuple(word.format(name=self.name) for word in self.kind.also)
        last = self.random.choice(self.kind.changed or (first,))
        before = [(first, also)] if also[:1] == ("compile",) else []
        second = (last, also if also[:1] == ("bench",) else self.up)
        return [*before, (first, self.up), second, (last, self.down)]

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """In a session of its own, in which no process may remain."""
        return subprocess.Popen(
            [sys.executable, "-m", "lmi_deploy.cli", *argv],
            cwd=self.root,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str], argv: Sequence[str], lines: list[str]) -> Ran:
        """Waits for the end; `lines` are filled meanwhile."""
        assert process.stdout is not None
        stop = threading.Timer(TIMEOUT, process.kill)
        stop.start()
        lines.extend(iter(process.stdout.readline, ""))
        process.stdout.close()
        process.wait()
        stop.cancel()
        result = Ran(tuple(argv), process.returncode, "".join(lines))
        if result.code == BUG or (_TRACEBACK in result.output and "KeyboardInterrupt" not in result.output):
            self.outcome.blame("a bug of lmi", result)
        return result

    def run(self, *argv: str) -> Ran:
        return self.finish(self.start(*argv), argv, [])

    def converge(self, *argv: str) -> None:
        """The same command again, until no other process holds the lock: it must succeed. What its hint asks for is
        done before: a compile.
        """
        deadline = time.monotonic() + TIMEOUT
        while (result := self.run(*argv)).code != 0 and time.monotonic() < deadline:
            if _NOT_COMPILED in result.output:
                self.converge(*self.kind.also)
            elif result.code != 5 or "locked by" not in result.output:
                break
            time.sleep(0.5)
        if result.code != 0:
            self.outcome.blame("it does not converge", result)

    def crash(self, argv: Sequence[str], within: float) -> None:
        """One signal at a random moment; a suspended process is resumed later.

        Most moments are counted from the first action, because the time before it changes nothing, and is the
        longer one.
        """
        name, moment = self.random.choice(SIGNALS), self.random.random() * within
        is_at_work = self.random.random() < AT_WORK
        nap, rival = self.random.uniform(0.2, 4.0), self.random.random() < 0.4
        process = self.start(*argv)
        existing: list[Ran] = []
        lines: list[str] = []
        reader = threading.Thread(target=lambda: existing.append(self.finish(process, argv, lines)))
        reader.start()
        while is_at_work and process.poll() is None and not any(line.startswith("... ") for line in lines):
            time.sleep(0.005)
        started = time.monotonic()
        while process.poll() is None and time.monotonic() - started < moment * (WORKING if is_at_work else 1):
            time.sleep(0.005)
        hit = process.poll() is None
        if hit:
            self._signal(process, name, nap, rival=rival)
        reader.join()
        (result,) = existing
        if hit:
            self.outcome.crashed += 1
            self.outcome.hits[name] = self.outcome.hits.get(name, 0) + 1
        good = (0, *DIED[name]) if hit else (0,)
        # The `up` before it was struck; or `down --purge`, beside a suspended `up`, deleted the compiled model.
        is_early = argv[0] == "bench" and any(words in result.output for words in _NOT_THERE)
        is_early |= _NOT_COMPILED in result.output
        if result.code not in good and not is_early and not (hit and _was_starting(result, name)):
            self.outcome.blame(f"{name} after {moment:.2f} s: exit {result.code}, expected {good}", result)
        if hit and name in ("SIGINT", "SIGTERM") and result.code == 130 and not result.output.strip():
            self.outcome.blame(f"{name} after {moment:.2f} s: nothing was said", result)
        self._require_no_process(process.pid)

    def _signal(self, process: subprocess.Popen[str], name: str, nap: float, *, rival: bool) -> None:
        process.send_signal(signal.Signals[name])
        if name != "SIGSTOP":
            return
        time.sleep(nap)
        if rival and nap > float(LOCK_SECONDS):
            result = self.run(*self.down)
            if result.code not in (0, 5):
                self.outcome.blame(f"`down` beside a suspended process: exit {result.code}", result)
        process.send_signal(signal.SIGCONT)

    def _require_no_process(self, session: int) -> None:
        """No process of a command outlives it, except those that end by themselves within a moment."""
        deadline = time.monotonic() + 10
        while left := [pid for pid in psutil.pids() if _session(pid) == session]:
            if time.monotonic() > deadline:
                self.outcome.blame(f"processes are left: {left}")
                return
            time.sleep(0.1)

    def require_nothing_left(self) -> None:
        own = re.compile(rf"{self.name}(?![0-9])")
        found = {
            kind: [name for name in names if own.search(name)] for kind, names in remaining(self.aws).items()
        }
        if left := {kind: names for kind, names in found.items() if names}:
            self.outcome.blame(f"left in the account: {left}")
        known = self.run("ls", "--json")
        if self.name in known.output:
            self.outcome.blame("lmi still knows of it", known)


def _was_starting(result: Ran, name: str) -> bool:
    """Python ended before it had started `lmi`: nothing was done, and no message could be printed."""
    return result.code == -signal.Signals[name] and (not result.output or _TRACEBACK in result.output)


def remaining(aws: Emulated) -> dict[str, list[str]]:
    """The names of all resources in the account, without its buckets and roles."""
    found: dict[str, list[str]] = {}
    for region in REGIONS:
        for kind, names in _of_region(replace(aws, region=region, _clients={})):
            found.setdefault(kind, []).extend(names)
    return {kind: names for kind, names in found.items() if names}


def _of_region(aws: Emulated) -> Iterator[tuple[str, list[str]]]:
    sagemaker, s3 = aws.client("sagemaker"), aws.client("s3")
    for kind, operation, listed in (
        ("Endpoint", "list_endpoints", "Endpoints"),
        ("EndpointConfig", "list_endpoint_configs", "EndpointConfigs"),
        ("InferenceComponent", "list_inference_components", "InferenceComponents"),
        ("Model", "list_models", "Models"),
    ):
        yield kind, _names(sagemaker, operation, listed, f"{kind}Name")
    # Jobs that ended cannot be deleted, and cost nothing.
    yield (
        "jobs",
        [
            *_names(
                sagemaker, "list_processing_jobs", "ProcessingJobSummaries", "ProcessingJobName", "InProgress"
            ),
            *_names(
                sagemaker,
                "list_optimization_jobs",
                "OptimizationJobSummaries",
                "OptimizationJobName",
                "INPROGRESS",
            ),
        ],
    )
    yield "alarms", _names(aws.client("cloudwatch"), "describe_alarms", "MetricAlarms", "AlarmName")
    groups = _names(aws.client("logs"), "describe_log_groups", "logGroups", "logGroupName")
    # SageMaker makes the other one, for the jobs of everybody.
    yield "groups", [name for name in groups if name != "/aws/sagemaker/ProcessingJobs"]
    yield "schedules", _names(aws.client("scheduler"), "list_schedules", "Schedules", "Name")
    yield "repositories", _names(aws.client("ecr"), "describe_repositories", "repositories", "repositoryName")
    scaling = aws.client("application-autoscaling")
    targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    yield "scaling", [item["ResourceId"] for item in targets]
    buckets = [one["Name"] for one in s3.list_buckets()["Buckets"] if aws.region in one["Name"]]
    yield "objects", [key for bucket in buckets for key in _keys(s3, bucket)]
    uploads = [s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ()) for bucket in buckets]
    yield "uploads", [upload["Key"] for each in uploads for upload in each]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid) if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else 0
    except (OSError, psutil.Error):
        return 0


def _names(client: Any, operation: str, listed: str, name: str, status: str = "") -> list[str]:
    pages = client.get_paginator(operation).paginate(**({"StatusEquals": status} if status else {}))
    return [item[name] for page in pages for item in page[listed]]


def _keys(s3: Any, bucket: str) -> Iterator[str]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        yield from (item["Key"] for item in page.get("Contents", ()))


def _indented(text: str) -> str:
    return "\n".join(f"    | {line}" for line in text.splitlines()[-40:])


def killed_lifecycle(
    aws: Emulated, folder: Path, seed: int, kind: str = "plain", *, strikes: int = 3
) -> Outcome:
    """Up to `strikes` signals, over its commands; each of them then converges."""
    run, started = KilledLifecycle(aws, folder, seed, kind), time.monotonic()
    within = _usual(run)
    steps = run.steps()
    for number, (recipe, argv) in enumerate(steps):
        run.recipe(recipe)
        if number < strikes:
            run.crash(argv, within[argv is run.down])
        if argv[0] == "compile":  # without its result `up` is refused
            run.converge(*argv)
        elif argv is run.up and run.random.random() < 0.7:
            run.converge(*argv)
            plan = run.run("plan", "recipe.yaml", "--exit-code")
            if plan.code != 0:
                run.outcome.blame("after `up` a plan has changes", plan)
    run.converge(*run.up)
    run.converge(*run.down)
    # What stays by design, and is named: the model of a compile, weights in the region that had no capacity.
    run.run("weights", "rm", run.name, "--region", REGIONS[0], "--yes")
    run.require_nothing_left()
    run.outcome.seconds = time.monotonic() - started
    return run.outcome


def _usual(run: KilledLifecycle) -> tuple[float, float]:
    """Seconds within which `up` and `down` get their signal: about as long as they take on this machine."""
    started = time.monotonic()
    run.run("--version")
    start = time.monotonic() - started
    return 4 + 4 * start, 2 + 3 * start


RESPONSES: tuple[Mapping[str, Any], ...] = (
    {"answer": {"status": 500, "body": "<html>oops</html>"}},
    {"answer": {"status": 503, "body": '{"__type": "ServiceUnavailable", "message": "no"}'}},
    {"answer": {"status": 400, "body": '{"__type": "ThrottlingException", "message": "Rate exceeded"}'}},
    {"answer": {"status": 403, "body": '{"__type": "AccessDeniedException", "message": "no"}'}},
    {"answer": {"status": 200, "body": "<html>log in to this network</html>"}},
    {"answer": {"status": 200, "body": ""}},
    {"answer": {"status": 200, "body": "{}"}},
    {"change": {"remove": ["ETag"]}},
    {"change": {"headers": {"ETag": '"0"'}}},
    {"change": {"status": 202}},
    {"cut": {"after": 0}},
    {"cut": {"after": 7, "reset": True}},
    {"flip": {"at": 1}},
    {"pad": {"count": 9}},
    {"stall": {"after": 0, "seconds": 0.5}},
    {"hang": {"seconds": 0.5}},
    {"drop": {"reset": True}},
    {"drop": {}},
    {"lose": {}},
    {"repeat": {}},
)
WHERE: tuple[Mapping[str, Any], ...] = (
    {"headers": {"X-Amz-Target": r"SageMaker\."}},
    {"headers": {"X-Amz-Target": r"\.Create"}},
    {"headers": {"X-Amz-Target": r"\.(Describe|List)"}},
    {"headers": {"X-Amz-Target": r"\.(Delete|Update)"}},
    {"headers": {"X-Amz-Target": r"ResourceGroupsTagging"}},
    {"method": "PUT", "path": "^/lmi-"},
    {"method": "GET", "path": "^/lmi-"},
    {"method": "HEAD", "path": "^/lmi-"},
    {"method": "DELETE", "path": "^/lmi-"},
    {"method": "POST", "path": "^/lmi-"},
    {"path": r"record\.json|lock\.json"},
    {"path": "/invocations"},
    NO_CAPACITY,
    {},
)


def faulty_round(aws: Emulated, folder: Path, seed: int, kind: str = "plain") -> Outcome:
    """`up`, a changed `up` and `down` under faults, each then without; alone in its account, because faults
    affect all."""
    run, started = KilledLifecycle(aws, folder, seed, kind), time.monotonic()
    for recipe, argv in run.steps():
        run.recipe(recipe)
        rules = [_rule(run.random) for _ in range(run.random.randint(1, 3))]
        aws.fault(*rules)
        result = run.run(*argv)
        aws.no_faults()
        run.outcome.crashed += 1
        if result.code not in (0, 1, 5, 6):
            run.outcome.blame(f"under {rules}: exit {result.code}", result)
        elif result.code and "next: " not in result.output:
            run.outcome.blame(f"under {rules}: it does not say what to do", result)
        run.converge(*argv)
    run.require_nothing_left()
    run.outcome.seconds = time.monotonic() - started
    return run.outcome


def _rule(chance: random.Random) -> dict[str, Any]:
    where = chance.choice(WHERE)
    times = chance.choice((1, 1, 2, 3, 6))
    return {"do": chance.choice(RESPONSES), **where, "nth": chance.randint(1, 6), "times": times}
