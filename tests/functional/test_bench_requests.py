"""What `lmi bench` sends: prompts of exact lengths, files, images. The server keeps every request."""

from __future__ import annotations

import base64
import csv
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tokenizers import Tokenizer

from lmi_deploy.bench.experiment_results import ResultsFolder
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.planning.stand_in_model import tokenizer_files
from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.local_app import MODEL, RECIPE, LocalApp

TOKENIZER = tokenizer_files()["tokenizer.json"]
QUICK = ("--requests", "20", "--warmup", "0", "--no-stream")


class OpenAIServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.bodies]


class _Handler(BaseHTTPRequestHandler):
    """Generates what `max_tokens` says. The model `twice` has tokens half as long."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, OpenAIServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        choice = {"message": {"content": "a"}, "finish_reason": "stop"}
        usage = {"completion_tokens": body.get("max_tokens", 3)}
        if body["model"] in ("once", "twice"):
            count = len(tokens(body["messages"][0]["content"]))
            usage["prompt_tokens"] = count * 2 if body["model"] == "twice" else count
        data = json.dumps({"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    made = OpenAIServer()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def tokens(text: str) -> list[int]:
    return list(Tokenizer.from_str(TOKENIZER).encode(text, add_special_tokens=False).ids)


def report(path: str = "bench.json") -> Report:
    return from_json(Path(path).read_text(encoding="utf-8"), path)


def test_prompts_have_the_asked_length_and_share_prefixes(app: LocalApp, server: OpenAIServer) -> None:
    Path("tokenizer.json").write_text(TOKENIZER)
    lengths = ("--input-tokens", "30", "--prefix-tokens", "70", "--prefixes", "2", "--tokenizer", ".")
    ran = app.lmi("bench", "--url", server.url, *lengths, "--output-tokens", "9", "--exact", *QUICK)
    assert ran.code == 0, ran.err
    found = [tokens(prompt) for prompt in server.prompts]
    assert len(found) >= 20
    assert {len(one) for one in found} == {100}
    assert len({tuple(one[:70]) for one in found}) == 2
    assert len({tuple(one) for one in found}) == len(found)
    assert {(body["max_tokens"], body["min_tokens"]) for body in server.bodies} == {(9, 9)}
    made = report()
    assert made.points[0].counts.length_checked == 20
    assert "100 tokens, the first 70 from 2 shared prefixes" in made.provenance.details["requests"]


@pytest.mark.parametrize(
    ("model", "counted", "by", "check"),
    [("once", 100, "server", "ok"), ("twice", 200, "server", "warning"), ("silent", 100, "tokenizer", None)],
)
def test_input_tokens_are_in_every_form_of_the_report(
    app: LocalApp, server: OpenAIServer, model: str, counted: int, by: str, check: str | None
) -> None:
    Path("tokenizer.json").write_text(TOKENIZER)
    asked = ("--input-tokens", "100", "--tokenizer", ".", "--records", "r.jsonl")
    ran = app.lmi("bench", "--url", server.url, "--model", model, *asked, *QUICK)
    (point,) = report().points
    assert point.counts.input_tokens == 20 * counted
    assert point.rate("input_tokens_per_s") == pytest.approx(counted * point.rate("requests_per_s"), rel=0.01)
    assert {one.name: one.state for one in point.checks}.get("input_length") == check
    row = next(line for line in ran.out.splitlines() if line.rstrip().endswith(by))
    assert f" {counted}.0 " in row
    app.lmi("bench", "report", "bench.json", "--csv", "r.csv", "--markdown", "r.md", "--html", "r.html")
    (line,) = csv.DictReader(Path("r.csv").read_text().splitlines())
    assert (line["input_tokens"], line["input_counted_by"]) == (str(20 * counted), by)
    assert all("input tokens/s" in Path(name).read_text() for name in ("r.md", "r.html"))
    records = [json.loads(each) for each in Path("r.jsonl").read_text().splitlines()[1:]]
    assert {(one["input_tokens"], one["input_counted_by"]) for one in records} == {(counted, by)}


def test_each_prompt_gets_an_image_of_the_asked_size(app: LocalApp, server: OpenAIServer) -> None:
    size = ("--image-size", "40x30", "--images-per-request", "2")
    ran = app.lmi("bench", "--url", server.url, "--prompt", "what?", *size, *QUICK)
    assert ran.code == 0, ran.err
    seen = set()
    for body in server.bodies:
        text, *images = body["messages"][0]["content"]
        assert text == {"type": "text", "text": "what?"}
        assert [one["type"] for one in images] == ["image_url", "image_url"]
        urls = [one["image_url"]["url"] for one in images]
        seen |= {*urls}
        for url in urls:
            kind, _, data = url.partition(";base64,")
            with Image.open(io.BytesIO(base64.b64decode(data))) as image:
                image.load()
                assert (kind, image.size, image.mode) == ("data:image/png", (40, 30), "RGB")
    assert len(seen) == 32
    assert "2 images each, of 32 synthetic images of 40x30" in report().provenance.details["requests"]


def test_files_are_images_in_turn(app: LocalApp, server: OpenAIServer) -> None:
    for number in range(3):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(f"{number}.png" if number else "0.jpg")
    Path("p.txt").write_text("a\nb\n")
    files = ("--image", "0.jpg", "--image", "1.png", "--image", "2.png")
    ran = app.lmi("bench", "--url", server.url, "--prompts", "p.txt", *files, *QUICK)
    assert ran.code == 0, ran.err
    sent = {one["messages"][0]["content"][1]["image_url"]["url"] for one in server.bodies}
    assert sorted(url[:15] for url in sent) == ["data:image/jpeg", "data:image/png;", "data:image/png;"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--image-size", "big"), "big is no size of an image"),
        (("--image-size", "9999x9999"), "99,980,001 pixels"),
        (("--image-size", "4x4", "--image", "a.png"), "--image and --image-size cannot be combined"),
        (("--image-size", "4x4", "--plain"), "only a chat has images"),
        (("--images-per-request", "2"), "--images-per-request has no effect without images"),
        (("--image", "none.png"), "none.png: No such file"),
        (("--image", "p.jsonl"), "p.jsonl: not a PNG, JPEG or WebP image"),
        (("--image-size", "4x4", "--prompts", "p.jsonl"), "a request has a whole body"),
    ],
)
def test_images_that_cannot_be_sent_are_refused(
    app: LocalApp, server: OpenAIServer, options: tuple[str, ...], words: str
) -> None:
    Path("p.jsonl").write_text('{"body": {"x": 1}}\n')
    ran = app.lmi("bench", "--url", server.url, *options, *QUICK)
    assert (ran.code, server.bodies, words in ran.err) == (2, [], True), ran.err


def test_images_for_a_deployment_of_text_are_refused(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    ran = app.lmi("bench", "tiny", "--image-size", "16x16", *QUICK)
    assert (ran.code, "this deployment takes no images" in ran.err) == (2, True), ran.err


class Asked:
    """A server that keeps the bodies of its requests, and answers as a chat."""

    def __init__(self, app: LocalApp) -> None:
        self.bodies: list[dict[str, Any]] = []
        app.servers.next.extend([Behaviour(answer=self._answer)] * 4)

    def _answer(self, body: dict[str, Any]) -> FakeResponse:
        self.bodies.append(body)
        return chat(body)

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Without the probe of `up`."""
        return self.bodies[1:]

    @property
    def urls(self) -> set[str]:
        contents = [body["messages"][0]["content"] for body in self.measured]
        return {
            part["image_url"]["url"] for parts in contents for part in parts if part["type"] == "image_url"
        }


VISION = RECIPE + "handler: {template: image-text-to-text}\n"


def test_images_of_a_recipe_are_sent_in_turn_and_another_image_is_measured_again(app: LocalApp) -> None:
    asked = Asked(app)
    Path("pictures").mkdir()
    for name, red in (("a.png", 1), ("b.jpg", 2)):
        Image.new("RGB", (8, 8), (red, 0, 0)).save(Path("pictures") / name)
    Path("pictures/e.yaml").write_text(
        VISION + "bench: {prompt: what?, images: [a.png, b.jpg], requests: 20, warmup: 0, duration: 10}\n"
    )
    ran = app.lmi("bench", "pictures/e.yaml", "--yes")
    assert ran.code == 0, ran.err
    assert {body["messages"][0]["content"][0]["text"] for body in asked.measured} == {"what?"}
    assert sorted(url[:15] for url in asked.urls) == ["data:image/jpeg", "data:image/png;"]
    again = app.lmi("bench", "pictures/e.yaml", "--yes")
    assert "all are measured already" in again.err
    Image.new("RGB", (8, 8), (3, 0, 0)).save("pictures/a.png")
    changed = app.lmi("bench", "pictures/e.yaml", "--yes")
    assert "1 of 1 cell in 1 deployment" in changed.err


def test_vision_model_without_a_prompt_gets_the_image_of_its_probe(app: LocalApp) -> None:
    asked = Asked(app)
    Path("e.yaml").write_text(VISION + "bench: {requests: 20, warmup: 0, output_tokens: 5}\n")
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert len(asked.urls) == 1
    assert {body["max_tokens"] for body in asked.measured} == {5}
    sent = asked.urls
    asked.bodies.clear()
    assert app.lmi("up", "e.yaml", "--yes").code == 0
    assert app.lmi("bench", "tiny", *QUICK).code == 0
    assert asked.urls == sent
    assert report().provenance.details["requests"] == "the prompt and the image of the probe"


@pytest.fixture
def custom(app: LocalApp) -> Asked:
    """A running deployment of the user's own code, whose probe is a body."""
    Path("own.py").write_text("def handle(inputs): ...\n")
    own = RECIPE.replace("accelerate", "custom") + "handler: {file: own.py}\n"
    Path("e.yaml").write_text(own + "probe: {body: '{\"rows\": [1, 2]}', content_type: application/x-rows}\n")
    asked = Asked(app)
    assert app.lmi("up", "e.yaml", "--yes").code == 0
    return asked


def test_engine_whose_requests_are_unknown_gets_the_body_of_the_probe(app: LocalApp, custom: Asked) -> None:
    ran = app.lmi("bench", "tiny", *QUICK)
    assert ran.code == 0, ran.err
    assert len(custom.measured) == 20
    assert all(body == {"rows": [1, 2]} for body in custom.measured)
    assert report().provenance.details["requests"] == "the probe of the deployment"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--output-tokens", "5"), "--output-tokens: no effect, because the requests are whole bodies"),
        (("-p", "top_k=1"), "the parameters (-p): no effect, because the requests are whole bodies"),
        (("--plain",), "--plain: no effect, because the requests are whole bodies"),
        (("--image-size", "4x4"), "a request has a whole body"),
        (("--prompt", "a"), "engine custom: lmi does not know the format of your requests"),
    ],
)
def test_options_without_effect_on_a_body_are_refused(
    app: LocalApp, custom: Asked, options: tuple[str, ...], words: str
) -> None:
    ran = app.lmi("bench", "tiny", *options, *QUICK)
    assert (ran.code, custom.measured, words in ran.err) == (2, [], True), ran.err


def test_experiment_of_whole_bodies_refuses_a_length(app: LocalApp) -> None:
    Path("e.yaml").write_text(RECIPE + "bench: {prompts: p.jsonl, matrix: {output_tokens: [1, 2]}}\n")
    Path("p.jsonl").write_text('{"body": {"inputs": "a"}}\n')
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 2
    assert "bench.output_tokens: no effect, because the requests of bench.prompts are whole bodies" in ran.err


def test_same_seed_sends_the_same_prompts(app: LocalApp, server: OpenAIServer) -> None:
    Path("tokenizer.json").write_text(TOKENIZER)
    sent = []
    for seed in ("3", "3", "4"):
        server.bodies.clear()
        app.lmi(
            "bench", "--url", server.url, "--input-tokens", "12", "--tokenizer", ".", "--seed", seed, *QUICK
        )
        sent.append(set(server.prompts))
    assert sent[0] == sent[1]
    assert sent[0] != sent[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--input-tokens", "5"), "the tokenizer of the model, which is unknown"),
        (("--input-tokens", "5", "--tokenizer", "org/none"), "org/none"),
        (("--input-tokens", "5", "--prompt", "a"), "--prompt and --input-tokens cannot be combined"),
        (("--prefix-tokens", "5"), "--prefix-tokens has no effect without --input-tokens"),
        (("--input-tokens", "5", "--prefixes", "2"), "--prefixes has no effect without --prefix-tokens"),
        (("--input-tokens", "5", "--tokenizer", "folder"), "No such file"),
    ],
)
def test_lengths_that_cannot_be_made_are_refused_before_a_request(
    app: LocalApp, server: OpenAIServer, options: tuple[str, ...], words: str
) -> None:
    Path("folder").mkdir()
    ran = app.lmi("bench", "--url", server.url, *options, *QUICK)
    assert ran.code in (1, 2)
    assert words in ran.err
    assert server.bodies == []


def test_experiment_counts_with_the_tokenizer_of_the_deployed_model(app: LocalApp) -> None:
    app.hub.models[MODEL]["tokenizer.json"] = TOKENIZER.encode()
    Path("e.yaml").write_text(RECIPE + "bench: {input_tokens: 40, requests: 20, warmup: 0}\n")
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 0, ran.err
    assert f"prompts are counted by the tokenizer of {MODEL}" in ran.err
    made = ResultsFolder(Path("bench-tiny")).report
    assert any("counted by the tokenizer" in note for note in report(str(made)).notes)


def test_experiment_says_that_prompts_are_approximate(app: LocalApp) -> None:
    del app.hub.models[MODEL]["tokenizer.json"]
    Path("e.yaml").write_text(RECIPE + "bench: {input_tokens: 40, requests: 20, warmup: 0}\n")
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 0, ran.err
    assert f"prompts are approximate, one word for each token: {MODEL}: it has no tokenizer.json" in ran.err


@pytest.mark.parametrize(
    ("bench", "words"),
    [
        ("{prefix_tokens: 4}", "bench.prefix_tokens: no effect without input_tokens"),
        ("{input_tokens: 4, prefixes: 2}", "bench.prefixes: no effect without prefix_tokens"),
        ("{input_tokens: 4, tokenizer: org/none}", "org/none"),
        ("{image_size: 4x4, chat: false}", "bench.image_size: only a chat has images"),
        ("{image_size: 4}", "bench.image_size: 4 is no size"),
        ("{images_per_request: 2}", "bench.images_per_request: no effect without images"),
        ("{images: [none.png]}", "none.png: No such file"),
        ("{images: [e.yaml]}", "e.yaml: not a PNG, JPEG or WebP image"),
        ("{images: [e.yaml], image_size: 4x4}", "bench: images and image_size cannot be combined"),
        ("{images: [e.yaml], chat: false}", "bench.images: only a chat has images"),
        ("{image_size: 4x4}", "this deployment takes no images"),
    ],
)
def test_experiment_refuses_lengths_without_effect(app: LocalApp, bench: str, words: str) -> None:
    Path("e.yaml").write_text(f"{RECIPE}bench: {bench}\n")
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code in (1, 2)
    assert words in ran.err
