"""Recordings of the real DJLServing, replayed against our server and compared in everything a client can
see."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.support.djl_engine import engine_dir
from tests.support.raw_http import TIMEOUT, RawResponse, converse, pipeline
from tests.support.recording import (
    Difference,
    Step,
    differing,
    free_port,
    grouped,
    leave,
    loading,
    pipelined,
    request_bytes,
    sleep_until,
)
from tests.support.running_server import launched

STAGGER = 0.05
SIGNAL_AFTER = 0.5
ENGINE = "${CACHE}/python/0.36.0"
REQUEST_HEADERS = [["Host", "127.0.0.1"], ["Content-Type", "application/json"], ["Content-Length", "2"]]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MODULE = re.compile(r"\bmodel_[0-9a-f]{8}\b")  # named after the path of model.py
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_MEASURED = re.compile(
    r"^(?!\w+_(?:count|bucket)\{)(\w+(?:_sum)?\{Model=[^}]*\}|StartupLatency\{[^}]*\}) [\d.]+$", re.MULTILINE
)
_HOST = re.compile(r'\{Host="[^"]*"\}')
_SINCE_START = re.compile(r"\bat ([\d.]+) s\b")
_SINCE_EVENT = re.compile(r"\b(\d+(?:\.\d+)?) s (?:after|later)\b")
_NONE_WITHIN = re.compile(r"no response within (\d+)s")


class Running(Protocol):
    """What a replay needs of the process that it started."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    @property
    def run_dir(self) -> Path: ...

    def wait_for(self, phase: str) -> None: ...


@dataclass
class Replay:
    """One recording against one server."""

    recording: dict[str, Any]
    folder: Path
    handlers: Path
    launch: Callable[..., AbstractContextManager[Running]] = launched
    """Starts the server: our own by default."""
    engine: Callable[[Path], Path] = lambda folder: engine_dir()
    """DJL's Python engine in the worker's paths, by the folder of the replay."""
    tokens: dict[str, str] = field(default_factory=dict)

    def differences(self) -> list[Difference]:
        """Start the server as recorded, send the recorded requests, compare the responses."""
        self._write_files()
        port, management = free_port(), free_port()
        config = self.folder / "config.properties"
        text = (
            self.recording["config"]
            .replace("${PORT}", str(port))
            .replace("${MANAGEMENT_PORT}", str(management))
        )
        config.write_text(text.replace("${H}", str(self.folder)), encoding="latin-1")
        started = time.monotonic()
        arguments = ("--port", str(port), "--config", str(config), "--drain-seconds", "4")
        with self.launch(self._model(), *arguments, environ=self._environment()) as served:
            if not self._watches_the_start():
                self._wait(served.wait_for)
            signalled = threading.Timer(
                SIGNAL_AFTER, served.process.send_signal, (self.recording.get("signal"),)
            )
            if "signal" in self.recording:
                signalled.start()
            found = list(self._play(port, management, started))
            if "worker" in self.recording:
                found += self._worker(port, str(served.run_dir))
            ended = self.recording["exit"]
            if ended is not None and (code := served.process.wait(TIMEOUT)) != ended:
                found.append(Difference(self.recording["name"], "", "exit", str(ended), str(code)))
        return found

    def _environment(self) -> dict[str, str]:
        stated: dict[str, str] = self.recording["environment"]
        result = self.recording.get("jvm_options")
        return {**stated, "JAVA_OPTS": result} if result else stated

    def _worker(self, port: int, run_dir: str) -> Iterator[Difference]:
        """The arguments of the Python process: its handler reports them on any request."""
        step = {
            "send": {"method": "POST", "path": "/invocations", "headers": REQUEST_HEADERS, "body": "{}"},
            "answer": {},
        }
        output = self._send_request(step, port).body.decode()
        for own, recorded in ((str(self.engine(self.folder)), ENGINE), (run_dir, "${H}/tmp")):
            output = output.replace(own, recorded)
        observed = json.loads(self._plain(output))
        worker = self.recording["worker"]
        pairs = {
            "argv": (worker["argv"], observed["argv"]),
            "cwd": (worker["cwd"], observed["cwd"]),
            "initialise": (worker["initialise"], observed["init"]["properties"]),
            "inference": (
                [[k, self._plain(v), t] for k, v, t in worker["inference"]],
                observed["now"]["properties"],
            ),
            "environment": (
                worker["environment"],
                {name: observed["env"].get(name) for name in worker["environment"]},
            ),
        }
        for name, (recorded, own) in pairs.items():
            if recorded != own:
                yield Difference(self.recording["name"], "worker", name, str(recorded), str(own))

    def _wait(self, wait_for: Callable[[str], None]) -> None:
        try:
            wait_for("ready")
        except AssertionError:
            if self.recording["exit"] is None:
                raise

    def _watches_the_start(self) -> bool:
        return any(_SINCE_START.search(step["label"]) for step in self.recording["requests"])

    def _model(self) -> Path:
        several = {name.split("/")[0] for name in self.recording["files"]} - {"alt", "outside"}
        return self.folder / "m" if several == {"m"} else self.folder / "store"

    def _write_files(self) -> None:
        (self.folder / "store").mkdir()
        for name, text in self.recording["files"].items():
            root = self.folder if name.startswith(("m/", "alt/", "outside/")) else self.folder / "store"
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = (self.handlers / text[1:]).read_text() if text.startswith("@") else text
            path.write_text(content.replace("${H}", str(self.folder)), encoding="utf-8")

    def _play(self, port: int, management: int, started: float) -> Iterator[Difference]:
        event = started
        phases: set[str] = set()
        for group in grouped(self.recording["requests"]):
            label = group[0]["label"]
            if at := _SINCE_START.search(label):
                sleep_until(started + float(at[1]) * self.recording.get("pace", 1))
            elif after := _SINCE_EVENT.search(label):
                sleep_until(event + float(after[1]))
            time.sleep(group[0].get("wait", 0))
            responses = self._send_all(group, {"management": management}.get(group[0].get("port", ""), port))
            if not _SINCE_EVENT.search(label):
                event = time.monotonic()
            for step, response in self._matched(group, responses):
                yield from self._compare(step, response)
                if _SINCE_START.search(step["label"]):
                    phases.add(
                        self._phase(
                            step, response.none or response.status, self._plain(response.body.decode())
                        )
                    )
        yield from self._missing_phases(phases)

    def _phase(self, step: Step, status: str, body: str) -> str:
        return f"{step['send']['path']} {status} {''.join(body.split())}"

    def _missing_phases(self, phases: set[str]) -> Iterator[Difference]:
        """Phases that the real server showed while it loaded must be seen in ours, too, at any moment."""
        timed = [step for step in self.recording["requests"] if _SINCE_START.search(step["label"])]
        for step in timed:
            response = step["answer"]
            phase = self._phase(step, response.get("none") or response["status"], self._body(response))
            if phase not in phases and "refused" not in phase:
                phases.add(phase)
                yield Difference(self.recording["name"], "while loading", "phase", phase, str(sorted(phases)))

    def _matched(self, group: list[Step], responses: list[RawResponse]) -> list[tuple[Step, RawResponse]]:
        """Which of several equal requests got which response is chance: they are paired so that most agree."""
        if len({json.dumps(step["send"]) for step in group}) > 1:
            return list(zip(group, responses, strict=True))
        left = list(responses)
        pairs = []
        for step in sorted(group, key=lambda step: str(step["answer"].get("status"))):
            best = min(left, key=lambda response: len(list(self._fields(step["answer"], response))))
            left.remove(best)
            pairs.append((step, best))
        return pairs

    def _send_all(self, group: list[Step], port: int) -> list[RawResponse]:
        if pipelined(group[0]):
            raws = [request_bytes(step, self._filled)[0] for step in group]
            return pipeline(port, raws, [step["send"]["method"] for step in group])
        responses: list[RawResponse] = [RawResponse(none="not asked")] * len(group)

        def send(number: int) -> None:
            responses[number] = self._send_request(group[number], port)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(len(group))]
        for thread in threads:
            thread.start()
            time.sleep(self.recording.get("stagger", STAGGER) if len(threads) > 1 else 0)
        for thread in threads:
            thread.join()
        return responses

    def _send_request(self, step: Step, port: int) -> RawResponse:
        within = _NONE_WITHIN.search(step["answer"].get("none", ""))
        timeout = float(within[1]) if within else TIMEOUT
        raw, later = request_bytes(step, self._filled)
        if step.get("leaves"):
            return leave(port, raw)
        return converse(port, raw, method=step["send"]["method"], later=later, timeout=timeout)

    def _filled(self, text: str) -> str:
        for recorded, own in self.tokens.items():
            text = text.replace(recorded, own)
        return text.replace("${H}", str(self.folder))

    def _compare(self, step: Step, response: RawResponse) -> Iterator[Difference]:
        """The timing differs while a server loads: there any of the responses recorded then is accepted."""
        candidates = [step]
        if _SINCE_START.search(step["label"]):
            equal = [s for s in self.recording["requests"] if s["send"]["path"] == step["send"]["path"]]
            candidates += [*equal, {"label": "", "send": {}, "answer": {"none": "connection refused"}}]
            candidates += [
                {"label": "", "send": {}, "answer": {"none": response.none or response.status}}
            ] * loading(response)
        outcomes = [list(self._fields(candidate["answer"], response)) for candidate in candidates]
        if all(outcomes):
            for name, recorded, own in outcomes[0]:
                yield Difference(self.recording["name"], step["label"], name, recorded[:900], own[:900])

    def _fields(self, reply: dict[str, Any], response: RawResponse) -> Iterator[tuple[str, str, str]]:
        recorded = reply.get("none") or reply["status"]
        own = response.none or response.status
        if recorded != own:
            yield "status", recorded, own
        if recorded != own or reply.get("none") or "headers" not in reply:
            return
        if (recorded_token := dict(reply["headers"]).get("x-next-token")) and (
            token := response.header("x-next-token")
        ):
            self.tokens.setdefault(recorded_token, token)
        varying = {name.lower() for name in reply.get("varies", ())}
        yield from differing(
            "headers", self._headers(reply, varying), self._observed_headers(response, varying, reply)
        )
        if "chunks" in reply:
            ours_too = [self._plain(chunk.decode("utf-8", "replace")) for chunk in response.chunks or []]
            yield from differing(
                "chunks",
                ([self._plain(c) for c in reply["chunks"]], reply["whole"]),
                (ours_too, response.is_complete),
            )
        else:
            yield from differing(
                "body", self._body(reply), self._plain(response.body.decode("utf-8", "replace"))
            )
        if "closed" in reply:
            yield from differing("closed", reply["closed"], response.closed)

    def _headers(self, response: dict[str, Any], varying: set[str]) -> list[tuple[str, str]]:
        loose = self._loose(response)
        return [
            (n, "*" if n.lower() in varying or (loose and n == "content-length") else v)
            for n, v in response["headers"]
        ]

    def _observed_headers(
        self, response: RawResponse, varying: set[str], reply: dict[str, Any]
    ) -> list[tuple[str, str]]:
        loose = self._loose(reply)
        return [
            (n, "*" if n.lower() in varying or (loose and n == "content-length") else v)
            for n, v in response.headers
        ]

    def _loose(self, response: dict[str, Any]) -> bool:
        body = response.get("body", "")
        return bool(response.get("body_varies")) or "${" in body or body.startswith("# HELP")

    def _body(self, response: dict[str, Any]) -> str:
        if "body64" in response:
            return base64.b64decode(response["body64"]).decode("utf-8", "replace")
        return self._plain(response.get("body", ""))

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.folder / "store"), "${H}").replace(str(self.folder), "${H}")
        if text.startswith("# HELP"):
            # Durations in microseconds and this machine's name differ in each run.
            text = _MEASURED.sub(r"\1 <measured>", _HOST.sub("{Host=<host>}", text))
        return _MODULE.sub("model_<digest>", _TIME.sub("<time>", _UUID.sub("<uuid>", text)))
