"""Shared by the tests of handlers: a handler in a folder, and a real worker that runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from lmi_deploy.composition.local import environments_at
from lmi_deploy.domain.deployment_spec import HandlerSpec, environment_name
from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead
from lmi_deploy.engines.accelerate import engine as accelerate
from tests.support.djl_engine import engine_dir
from tests.support.handler_driver import HEADERS, Worker

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
TEXT_GENERATION = HandlerSpec(entry_point="model.py", template="text-generation")


@cache
def serving(handler: HandlerSpec = TEXT_GENERATION) -> Path:
    """A Python with the packages of `handler`: built by the product and kept in the tool's cache."""
    given = os.environ.get("LMI_TEST_SERVING_PYTHON")
    if given:
        return Path(given)
    packages = accelerate.ENGINE.packages(handler)
    name = environment_name(packages, "")
    environments = environments_at(os.environ)
    for _ in environments.build(name, packages, "", key="environment"):
        pass
    return environments.python(name)


@contextmanager
def worker(folder: Path, handler: HandlerSpec = TEXT_GENERATION, *, also: str = "") -> Iterator[Worker]:
    """A worker that runs the handler, with `also` appended to its template's code."""
    folder.mkdir(parents=True, exist_ok=True)
    if handler.template:
        code = (TEMPLATES / handler.template / "model.py").read_text()
        (folder / "model.py").write_text(code + also)
    with Worker(serving(handler), engine_dir(), folder, entry_point=handler.entry_point) as running:
        yield running


def template(name: str) -> HandlerSpec:
    """One of our handlers."""
    return HandlerSpec(entry_point="model.py", template=name)


def handle(
    running: Worker, inference_request: InferenceRequest, handler: HandlerSpec = TEXT_GENERATION
) -> list[Chunk]:
    """Sends the request through our codec and decodes the response."""
    request = accelerate.ENGINE.encode(inference_request, handler, "text-generation")
    reply = running.invoke(request.body, dict(request.headers))
    head = ResponseHead(status=reply.code, reason="", headers=tuple(reply.properties.items()))
    decoder = accelerate.ENGINE.decoder(head, inference_request, handler)
    return [
        chunk for frame in reply.frames or (reply.body,) for chunk in decoder.feed(frame)
    ] + decoder.close()


def assert_adapter_refused(running: Worker, body: object) -> None:
    """The model itself must not answer in its place."""
    reply = running.invoke(body, {**HEADERS, "x-amzn-sagemaker-adapter-identifier": "sql"})
    assert (reply.code, reply.json["error"]["param"]) == (400, "X-Amzn-SageMaker-Adapter-Identifier")
    assert "this handler has no adapters" in reply.json["error"]["message"]


def assert_refused(running: Worker, body: object, param: str | None, message: str) -> None:
    """A client error is a 400 that names the parameter."""
    reply = running.invoke(body)
    assert reply.code == 400
    assert reply.json["error"]["param"] == param
    assert reply.json["error"]["message"].startswith(message)
