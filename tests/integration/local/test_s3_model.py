"""`lmi up` of a recipe whose model is in S3: the real composition, moto, DJL's real engine, a response from
the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.local import wire
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.targets.local.target import LocalTarget
from lmi_deploy.targets.target import Target
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.djl_engine import engine_dir
from tests.support.fakes import FakeEnvironments
from tests.support.running_server import worker_python
from tests.support.s3_servers import S3Server, moto_s3

pytestmark = pytest.mark.landing

RECIPE = """\
name: from-s3
model_id: s3://models-here/llm/answers
engine: custom
handler: {file: model.py}
probe: {body: '{}', expect: forty-two}
endpoint: {target: local}
"""
HANDLER = """\
from pathlib import Path
from djl_python import Output

answer = None

def handle(inputs):
    global answer
    if answer is None:
        folder = Path(inputs.get_properties()["model_id"])
        answer = (folder / "nested" / "answer.safetensors").read_text()
    return None if inputs.is_empty() else Output().add(answer)
"""


@dataclass
class ReadyEnvironments(FakeEnvironments):
    """An interpreter with numpy, and DJL's engine from the tests' cache."""

    djl: Path = Path()

    def ready(self, environment: str) -> bool:
        return True

    def python(self, environment: str) -> Path:
        return Path(worker_python())

    def engine_ready(self, version: str) -> bool:
        return True

    def engine(self, version: str) -> Path:
        return self.djl


@dataclass
class Machine:
    """A home with a recipe, and S3 behind the AWS credential chain."""

    home: Path
    s3: S3Server
    djl: Path
    streams: pytest.CaptureFixture[str]

    def lmi(self, *argv: str) -> tuple[int, str, str]:
        code = run(lmi, argv, given=DependenciesFactory(self.deps))
        messages = self.streams.readouterr()
        return code, messages.out, messages.err

    def deps(self) -> Dependencies:
        """As the command composes it, except for the serving environment, which takes long to build."""
        found = wire(os.environ)
        environments = ReadyEnvironments(self.home, djl=self.djl)
        local = found.targets["local"]
        assert isinstance(local, LocalTarget)
        targets: dict[TargetName, Target] = {"local": replace(local, environments=environments)}
        return replace(found, environments=environments, targets=targets)


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Machine]:
    djl = engine_dir()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(RECIPE)
    Path("model.py").write_text(HANDLER)
    with moto_s3() as server:
        settings = {
            "AWS_ACCESS_KEY_ID": server.access,
            "AWS_SECRET_ACCESS_KEY": server.secret,
            "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
            "AWS_ENDPOINT_URL": server.url,
            "LMI_STATE_HOME": str(tmp_path / "state"),
            "LMI_CACHE_HOME": str(tmp_path / "cache"),
            "NO_PROXY": "127.0.0.1,localhost",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        machine = Machine(tmp_path, server, djl, capfd)
        yield machine
        machine.lmi("down", "--yes", "from-s3")


def put(machine: Machine, response: bytes) -> None:
    machine.s3.api().put_object(
        Bucket="models-here", Key="llm/answers/nested/answer.safetensors", Body=response
    )


def test_s3_model_answers_and_a_changed_one_replaces_it(machine: Machine) -> None:
    place = {"LocationConstraint": "eu-west-1"}
    west_of(machine).s3.api().create_bucket(Bucket="models-here", CreateBucketConfiguration=place)
    put(west_of(machine), b"forty-two, it says")
    assert machine.lmi("validate", "recipe.yaml")[0] == 0
    code, _, err = machine.lmi("up", "--yes", "recipe.yaml")
    assert code == 0, err
    code, out, err = machine.lmi("invoke", "from-s3", "--body", "{}")
    assert (code, out.strip()) == (0, "forty-two, it says"), err
    assert machine.lmi("plan", "--exit-code", "recipe.yaml")[0] == 0
    put(west_of(machine), b"forty-two, as ever")
    assert machine.lmi("plan", "--exit-code", "recipe.yaml")[0] == 4
    assert machine.lmi("up", "--yes", "recipe.yaml")[0] == 0
    assert machine.lmi("invoke", "from-s3", "--body", "{}")[1].strip() == "forty-two, as ever"


def west_of(machine: Machine) -> Machine:
    return replace(machine, s3=replace(machine.s3, region="eu-west-1"))


def test_missing_bucket_is_reported(machine: Machine) -> None:
    code, out, err = machine.lmi("plan", "recipe.yaml", "--set", "model_id=s3://none-of-that-name/llm")
    assert (code, out) == (1, ""), err
    assert "s3://none-of-that-name: no such bucket" in err
    assert "next: " in err


@pytest.mark.parametrize(
    ("engine_setting", "count", "engine"),
    [("s5cmd", 1, "s5cmd"), ("obstore", 1, "obstore"), ("auto", 1, "lmi"), ("auto", 200, "obstore")],
)
def test_upload_engine_is_chosen_by_the_recipe(
    machine: Machine, engine_setting: str, count: int, engine: str
) -> None:
    if engine == "obstore":
        pytest.importorskip("obstore")
    machine.s3.make_bucket("weights-here")
    Path("model/nested").mkdir(parents=True)
    for number in range(count):
        Path(f"model/nested/weights-{number}.safetensors").write_bytes(b"w" * (100 + number))
    expected = ["--set", "model_id=./model", "--set", f"weights.engine={engine_setting}"]
    bucket = ["--bucket", "weights-here", "--region", "us-east-1"]
    code, out, err = machine.lmi("weights", "push", "recipe.yaml", *expected, *bucket)
    assert code == 0, err
    assert f"uploader: {engine}" in err
    assert ("auto: 200 of 20" in err) == (count == 200)
    name = out.strip().removeprefix("s3://weights-here/weights/").rstrip("/")
    assert machine.lmi("weights", "verify", name, *bucket)[0] == 0
    assert machine.lmi("weights", "verify", "--deep", name, *bucket)[0] == 0
