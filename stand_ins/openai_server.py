"""In the place of vLLM's and SGLang's servers: the entry points of AWS's images, and OpenAI's requests.

What is real: a variable SM_VLLM_X or SM_SGLANG_X becomes the argument --x; a model folder without config.json ends the
server; SGLang's /invocations takes chats only; streams are server-sent events. What is not: there is no model, and an
argument is not checked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PREFIXES = {"SM_VLLM_": "model", "SM_SGLANG_": "model_path"}
"""The variables of each server, and the argument that names the model."""
WORDS = ("This", " is", " a", " stand", "-in", ".")


def arguments(environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The prefix, and the arguments that the entry point of the image would make."""
    prefix = next((one for one in PREFIXES if any(key.startswith(one) for key in environ)), "")
    found = {
        key.removeprefix(prefix).lower(): value for key, value in environ.items() if key.startswith(prefix)
    }
    return prefix, found if prefix else {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat_only = False
    model = "model"

    def do_GET(self) -> None:
        self._send(200 if self.path in ("/ping", "/health") else 404, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError as reason:
            return self._refuse(f"invalid JSON: {reason}")
        if not isinstance(body, dict):
            return self._refuse("the body must be an object")
        if "messages" in body:
            return self._generate(body, "chat.completion")
        if self.chat_only:
            return self._refuse("Field required: messages")
        if "prompt" in body:
            return self._generate(body, "text_completion")
        if "input" in body:
            return self._embed(body["input"])
        return self._refuse("Unsupported request: send messages, prompt or input")

    def _generate(self, body: Mapping[str, Any], kind: str) -> None:
        limit = body.get("max_tokens") or len(WORDS)
        if not isinstance(limit, int) or limit < 1:
            return self._refuse(f"max_tokens must be at least 1, got {limit}.")
        words = WORDS[:limit]
        if body.get("stream"):
            return self._stream(words, kind)
        text = "".join(words)
        content = {"message": {"role": "assistant", "content": text}} if "chat" in kind else {"text": text}
        usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
        choice = {"index": 0, **content, "finish_reason": "stop"}
        return self._send(
            200, {"id": "stand-in", "object": kind, "model": self.model, "choices": [choice], "usage": usage}
        )

    def _stream(self, words: tuple[str, ...], kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in _events(words, kind):
            self.wfile.write(f"data: {line}\n\n".encode())
        self.close_connection = True

    def _embed(self, given: str | list[str]) -> None:
        texts = given if isinstance(given, list) else [given]
        data = [
            {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
            for n, text in enumerate(texts)
        ]
        self._send(200, {"object": "list", "data": data, "model": self.model})

    def _refuse(self, message: str) -> None:
        self._send(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})

    def _send(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _events(words: tuple[str, ...], kind: str) -> Iterator[str]:
    for word in words:
        content = {"delta": {"content": word}} if "chat" in kind else {"text": word}
        yield json.dumps({"object": f"{kind}.chunk", "choices": [{"index": 0, **content}]})
    yield "[DONE]"


def main() -> int:
    given = argparse.ArgumentParser()
    given.add_argument("--model-dir", type=Path)
    given.add_argument("--port", type=int)
    options = given.parse_args()
    prefix, found = arguments(os.environ)
    print("arguments:", *(f"--{key.replace('_', '-')} {value}".rstrip() for key, value in found.items()))
    model = Path(found.get(PREFIXES.get(prefix, ""), "") or options.model_dir)
    if not (model / "config.json").is_file():
        print(f"OSError: {model} does not appear to have a file named config.json.", file=sys.stderr)
        return 1
    Handler.chat_only = prefix == "SM_SGLANG_"
    Handler.model = found.get("served_model_name") or str(model)
    sys.stdout.flush()
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
