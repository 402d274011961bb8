"""The far sides of the transfer benchmark: a Hub and an S3, both over TLS, built from benchmarks/sinks with Go."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, environment

SOURCE = ROOT / "benchmarks" / "sinks"
PROGRAM = ROOT / ".build" / "bench" / "sinks"
HASHES = PROGRAM.with_name("hashes")


def missing() -> str:
    """Why the servers cannot be built here; empty where they can."""
    return (
        ""
        if shutil.which("go")
        else "Go builds the servers of this benchmark (1.22 or newer), and is not here"
    )


@dataclass(frozen=True, slots=True)
class Servers:
    folder: Path

    @property
    def hub(self) -> str:
        return (self.folder / "hub").read_text()

    @property
    def s3(self) -> str:
        return (self.folder / "s3").read_text()

    @property
    def environment(self) -> dict[str, str]:
        """How any client finds and trusts them."""
        authority = str(self.folder / "ca.pem")
        return {
            "HF_ENDPOINT": self.hub,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "SSL_CERT_FILE": authority,
            "REQUESTS_CA_BUNDLE": authority,
            "AWS_CA_BUNDLE": authority,
            "AWS_ENDPOINT_URL": self.s3,
            "S3_ENDPOINT_URL": self.s3,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def forget(self) -> None:
        self._stats("DELETE")

    def stats(self) -> dict[str, Any]:
        """Calls and bytes that reached S3 since it forgot."""
        return self._stats("GET")

    def _stats(self, method: str) -> dict[str, Any]:
        trusted = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        request = urllib.request.Request(f"{self.s3}/_stats", method=method)
        with urllib.request.urlopen(request, context=trusted) as response:
            fields: dict[str, Any] = json.load(response)
            return fields


@cache
def _program() -> Path:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    offline = environment({"GOPROXY": "off", "GOFLAGS": "-mod=mod"})
    subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=SOURCE, env=offline, check=True)
    return PROGRAM


@contextmanager
def servers(**model: int) -> Iterator[Servers]:
    """`model`: count and size of its large files, small and small_size of the others, rate of each connection."""
    options = [word for key, value in model.items() for word in (f"-{key.replace('_', '-')}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        words = [str(_program()), "-folder", folder, "-hashes", str(HASHES), *options]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                if process.stdout.readline().strip() != "ready":
                    raise SystemExit(f"error: {' '.join(words)}: did not start")
                yield Servers(Path(folder))
            finally:
                process.kill()
