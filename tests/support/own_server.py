"""The server of an image of the user's own: any answer to /ping, `{"input": ...}` on /invocations."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send(200, "pong")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "input" not in body:
            return self._send(400, {"error": "send input"})
        weights = Path(os.environ["LMI_MODEL_PATH"])
        files = sorted(path.name for path in weights.iterdir())
        return self._send(200, {"output": body["input"].upper(), "weights": files})

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing for each request."""

    def _send(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    if sys.argv[1:] != ["serve"]:
        sys.exit(f"SageMaker starts an image with `serve`, not with {sys.argv[1:]}")
    # The first process of a container gets no default action: without a handler it would ignore SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    print(f"own server on {port}", flush=True)
    if os.environ.get("NEVER_LISTEN"):
        time.sleep(600)
    ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
