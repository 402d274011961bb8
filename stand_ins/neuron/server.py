"""In the place of SageMaker's Hugging Face inference toolkit: `code/inference.py` in several processes.

What is real: the functions model_fn, input_fn, predict_fn and output_fn are called as the toolkit does, one request at
a time in each of SAGEMAKER_MODEL_SERVER_WORKERS processes; an exception of the code is status 400, as in the toolkit.
What is not: multi-model-server, its queue and its metrics.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import runpy
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CODE = ("code", "inference.py")


def work(folder: str, requests: Any, responses: Any) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        code = runpy.run_path(str(Path(folder, *CODE)))
        model = code["model_fn"](folder)
    except BaseException:  # noqa: BLE001  a worker that cannot start must say so
        traceback.print_exc()
        responses.put((None, 500, ""))
        return
    responses.put((None, 200, ""))
    while True:
        number, body, kind = requests.get()
        try:
            result = code["output_fn"](code["predict_fn"](code["input_fn"](body, kind), model), kind)
            responses.put((number, 200, result))
        except Exception as reason:  # noqa: BLE001  as the toolkit
            traceback.print_exc()
            error = {"code": 400, "type": "InternalServerException", "message": str(reason)}
            responses.put((number, 400, json.dumps(error)))


class Pool:
    """The workers, and one response queue for each request."""

    def __init__(self, folder: str, count: int) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.free = self.context.Manager().Queue()
        self.workers = []
        for _ in range(count):
            requests, responses = self.context.Queue(), self.context.Queue()
            worker = self.context.Process(target=work, args=(folder, requests, responses), daemon=True)
            worker.start()
            self.workers.append((requests, responses))
        for index, (_, responses) in enumerate(self.workers):
            if responses.get()[1] != 200:
                raise SystemExit(1)
            self.free.put(index)

    def ask(self, body: bytes, kind: str) -> tuple[int, str]:
        index = self.free.get()
        requests, responses = self.workers[index]
        requests.put((0, body, kind))
        _, status, text = responses.get()
        self.free.put(index)
        return status, text


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pool: Pool

    def do_GET(self) -> None:
        self._send(200 if self.path == "/ping" else 404, "{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(*self.pool.ask(body, self.headers.get("Content-Type") or "application/json"))

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--model-dir")
    given.add_argument("--port", type=int)
    options = given.parse_args()
    workers = int(os.environ.get("SAGEMAKER_MODEL_SERVER_WORKERS") or 1)
    Handler.pool = Pool(options.model_dir, workers)
    print(f"{workers} workers, NEURONCORE_GROUP_SIZES={os.environ.get('NEURONCORE_GROUP_SIZES')}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
