"""Engine triton on the real server of nvidia-pytriton: on this machine, and as the emulator's container."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmi_deploy.composition.local import environments_at
from lmi_deploy.domain.deployment_spec import HandlerSpec, environment_name
from lmi_deploy.engines.triton.engine import ENGINE, TEMPLATE
from tests.e2e.conftest import ROOT, Installed
from tests.support.emulator_process import emulator

pytestmark = pytest.mark.landing

PUBLISHED = ROOT / "recipes" / "published" / "t5-triton-tensorrt" / "recipe.yaml"
BODY = {"inputs": [{"name": "text", "shape": [2, 1], "datatype": "BYTES", "data": ["w1 w2", "w3 w4 w5"]}]}
MODEL = """
import sys
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

words = ["<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(61))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(sys.argv[1])
torch.manual_seed(0)
sizes = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).save_pretrained(sys.argv[1])
"""
RECIPE = """
name: t5
model_id: {model}
engine: triton
task: text2text-generation
endpoint: {{target: local}}
options: {{max_batch_size: 8, preferred_batch_size: "4,8", max_queue_delay_microseconds: 200000, max_new_tokens: 8}}
"""
"""The long queue delay lets requests that are sent together wait for each other on a slow machine, too."""
BROKEN = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("no such model")
"""


@pytest.fixture(scope="module")
def python(lmi: Installed) -> Path:
    """The interpreter of Triton's serving environment, which is built now if the cache does not have it."""
    packages = ENGINE.packages(HandlerSpec(entry_point="model.py", template=TEMPLATE))
    environments, name = environments_at(lmi.environment), environment_name(packages, "")
    if not environments.ready(name):
        for _ in environments.build(name, packages, "", key="environment"):
            pass
    return environments.python(name)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """A small T5 with random weights, and beside it what a compiled deployment has: plans that nothing here reads."""
    folder = tmp_path_factory.mktemp("model") / "t5"
    folder.mkdir()
    subprocess.run([str(python), "-c", MODEL, str(folder)], check=True)
    for name in ("encoder.plan", "decoder.plan", "environment.tar.gz"):
        (folder / name).write_bytes(b"not compiled here")
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "t5.yaml"
    path.write_text(RECIPE.format(model=model))
    return path


@pytest.fixture(scope="module")
def address(lmi: Installed, recipe: Path) -> str:
    done = lmi.run("up", "--yes", "--json", str(recipe))
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr)
    url: str = json.loads(done.stdout.splitlines()[-1])["address"]
    return url.removesuffix("/invocations")


def answered(url: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_texts_of_one_request_are_answered_in_order(address: str) -> None:
    status, response = answered(f"{address}/invocations", BODY)
    assert status == 200
    [tensor] = response["outputs"]
    assert (tensor["name"], tensor["shape"]) == ("generated_text", [2, 1])
    single = {"inputs": [{**BODY["inputs"][0], "shape": [1, 1], "data": ["w1 w2"]}]}
    assert answered(f"{address}/invocations", single)[1]["outputs"][0]["data"] == tensor["data"][:1]


def test_requests_that_wait_together_run_as_one_batch(address: str) -> None:
    def executions() -> int:
        count: int = answered(f"{address}/v2/models/model/stats")[1]["model_stats"][0]["execution_count"]
        return count

    before = executions()
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: answered(f"{address}/invocations", BODY)[0], range(8)))
    assert statuses == [200] * 8
    assert executions() - before < 8


def test_mistake_of_the_client_is_400_in_words_of_the_model(address: str, lmi: Installed) -> None:
    done = lmi.run("invoke", "t5", "w1", "-p", "beams=2")
    assert done.returncode == 1
    assert "beams is not supported" in done.stdout + done.stderr
    status, response = answered(
        f"{address}/invocations", {"inputs": [{**BODY["inputs"][0], "name": "texts"}]}
    )
    assert status == 400
    assert "texts" in response["error"]


def test_server_listens_on_loopback_alone(address: str, lmi: Installed) -> None:
    assert answered(f"{address}/ping")[0] == 200
    [status] = [json.loads(line) for line in lmi.run("status", "--json", "t5").stdout.splitlines()]
    server = psutil.Process(status["server"]["pid"])
    listening = [
        found.laddr.ip
        for process in (server, *server.children(recursive=True))
        for found in process.net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 2
    assert set(listening) == {"127.0.0.1"}


def test_model_that_triton_refuses_is_explained_in_its_own_words(
    lmi: Installed, recipe: Path, tmp_path: Path, address: str
) -> None:
    (tmp_path / "model.py").write_text(BROKEN)
    broken = tmp_path / "broken.yaml"
    probe = 'handler: {file: model.py}\nprobe: {prompt: "w1"}\n'
    broken.write_text(recipe.read_text().replace("name: t5", "name: broken") + probe)
    done = lmi.run("up", "--yes", str(broken))
    assert done.returncode == 1
    assert "no such model" in done.stderr
    assert answered(f"{address}/ping")[0] == 200
    assert lmi.run("down", "--yes", "broken").returncode == 0


def test_down_leaves_no_process(address: str, lmi: Installed) -> None:
    [status] = [json.loads(line) for line in lmi.run("status", "--json", "t5").stdout.splitlines()]
    server = psutil.Process(status["server"]["pid"])
    processes = [server, *server.children(recursive=True)]
    assert lmi.run("down", "--yes", "t5").returncode == 0
    left = [process for process in processes if process.is_running()]
    # A machine whose init does not reap keeps ended processes as zombies.
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.long  # a rehearsal is the same life: test_rehearse.py
def test_published_recipe_lives_on_the_emulator(
    lmi: Installed, model: Path, tmp_path: Path, python: Path
) -> None:
    """Its compiled parts are computed by transformers there, and the container's log says so."""
    with emulator(tmp_path, variables={"LMI_STATE_HOME": str(tmp_path / "emulator")}) as emulated:
        env = {**emulated.environment(tmp_path), "AWS_DEFAULT_REGION": "us-east-1"}
        # The files of a compile are there already: tests/engines/test_rehearse.py makes them.
        recipe = tmp_path / "recipe.yaml"
        text = re.sub(r"^compile:\n(  .*\n)+", "", PUBLISHED.read_text(), flags=re.MULTILINE)
        recipe.write_text(text.replace('"*.safetensors"]', '"*.safetensors", "*.plan", environment.tar.gz]'))
        given = (str(recipe), "--set", f"model_id={model}", "--set", "options.instance_count=1")
        done = lmi.run("up", "--yes", *given, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        response = lmi.run("invoke", "t5-triton-tensorrt", "w1 w2", env=env)
        assert response.returncode == 0, response.stderr
        assert set(response.stdout.split()) <= {f"w{number}" for number in range(61)} | {"<unk>"}
        logs = lmi.run("logs", "t5-triton-tensorrt", env=env).stdout
        assert "stand-in for Triton's backend tensorrt: decoder computed with transformers" in logs
        done = lmi.run("up", "--yes", *given, "--set", "options.max_batch_size=32", env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        assert lmi.run("invoke", "t5-triton-tensorrt", "w1 w2", env=env).stdout == response.stdout
        assert lmi.run("down", "--yes", "t5-triton-tensorrt", env=env).returncode == 0
