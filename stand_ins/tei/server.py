"""In the place of Text Embeddings Inference: its variables, its limits, its requests on /invocations.

What is real: HF_MODEL_ID is required and names a model folder; /invocations is /embed, or /predict for a model with
labels; MAX_CLIENT_BATCH_SIZE (32) limits a request. What is not: there is no model; a text's hash is its vector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DIMENSIONS = 8


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    labels: tuple[str, ...] = ()
    most = 32

    def do_GET(self) -> None:
        self._send(200 if self.path in ("/ping", "/health") else 404, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        try:
            inputs = json.loads(self.rfile.read(length))["inputs"]
        except (ValueError, KeyError, TypeError):
            return self._refuse(422, "missing field `inputs`")
        texts = inputs if isinstance(inputs, list) else [inputs]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            return self._refuse(413 if texts else 422, "`inputs` cannot be empty")
        if len(texts) > self.most:
            return self._refuse(413, f"batch size {len(texts)} > maximum allowed batch size {self.most}")
        answers = [self._answer(text) for text in texts]
        return self._send(200, answers[0] if self.labels and not isinstance(inputs, list) else answers)

    def _answer(self, text: str) -> list[Any]:
        digest = hashlib.sha256(text.encode()).digest()
        if not self.labels:
            return [byte / 255 for byte in digest[:DIMENSIONS]]
        total = sum(digest[: len(self.labels)]) or 1
        scored = [{"score": digest[n] / total, "label": label} for n, label in enumerate(self.labels)]
        return sorted(scored, key=lambda one: -float(one["score"]))

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, {"error": message, "error_type": "Validation"})

    def _send(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    given = argparse.ArgumentParser()
    given.add_argument("--model-dir", type=Path)
    given.add_argument("--port", type=int)
    options = given.parse_args()
    model = os.environ.get("HF_MODEL_ID")
    if not model:
        print("HF_MODEL_ID must be set")
        return 1
    try:
        config = json.loads(Path(model, "config.json").read_text())
    except (OSError, ValueError) as reason:
        print(f"Error: `config.json` not found: {reason}", file=sys.stderr)
        return 1
    if any("SequenceClassification" in name for name in config.get("architectures") or ()):
        Handler.labels = tuple((config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}).values())
    Handler.most = int(os.environ.get("MAX_CLIENT_BATCH_SIZE") or 32)
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
