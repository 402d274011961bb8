"""The proxy as a program of its own, with records of deployments in a folder of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.state.state_dir import StateDir
from tests.support.factories import generation
from tests.support.json_output import require_described

TIMEOUT = 60.0


def write_record(home: Path, name: str, port: int, **serving: Any) -> None:
    """A local deployment at that port, as `lmi up` records it; `serving` are fields of its ServingRecord."""
    plain = generation("s-1")
    known = replace(plain, port=port, serving=replace(plain.serving, **serving))
    StateDir(home / "state").write(Record(ref=DeploymentRef(name=name, target="local"), generations=(known,)))


@dataclass
class ProxyResponse:
    """Of one request on a connection of its own."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events; `[DONE]` as a text."""
        data = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [each if each == "[DONE]" else json.loads(each) for each in data]

    @property
    def text(self) -> str:
        """What the chunks of a chat or of a completion say."""
        choices = [event["choices"] for event in self.events if event != "[DONE]" and event.get("choices")]
        return "".join(
            str(each[0].get("delta", {}).get("content") or each[0].get("text", "")) for each in choices
        )


@dataclass
class RunningProxy:
    process: subprocess.Popen[str]
    ready: Mapping[str, Any]
    key: str
    connections: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(str(self.ready["url"]).rpartition(":")[2])

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        self.connections.append(connection)
        return connection

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> ProxyResponse:
        connection = self.connect()
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, content, {**self.authorization, **(headers or {})})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return ProxyResponse(response.status, found, response.read())

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> ProxyResponse:
        return self.request("POST", path, body, headers)

    def chat(self, said: str, *, model: str = "talks", **more: Any) -> ProxyResponse:
        messages = [{"role": "user", "content": said}]
        return self.post("/v1/chat/completions", {"model": model, "messages": messages, **more})

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> ProxyResponse:
        return self.request("GET", path, None, headers)

    def metric(self, text: str) -> float:
        """The value of the line that begins with `text`; 0 if there is none."""
        lines = self.get("/metrics").body.decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(text)), 0.0)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


@contextmanager
def proxy(
    home: Path, *flags: str, environ: Mapping[str, str] | None = None, open_files: int | None = None
) -> Iterator[RunningProxy]:
    """`lmi proxy --json` as a user starts it; `home` has the records, `open_files` is its limit of open files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "lmi_deploy", "proxy", "--port", "0", "--json", *flags]
    limit = [] if open_files is None else ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*limit, *command],
        env={**kept, "LMI_STATE_HOME": str(home / "state"), "AWS_CONFIG_FILE": "/nowhere", **(environ or {})},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    require_described(["proxy", "--json"], first)
    ready = json.loads(first or "{}")
    key = ready.get("api_key") or (environ or {}).get(PROXY_KEY_VARIABLE, "")
    running = RunningProxy(process, ready, key)
    try:
        yield running
    finally:
        for connection in running.connections:
            connection.close()
        process.kill() if process.poll() is not None else process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
