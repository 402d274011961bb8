"""The order of a rehearsal, and what it says when a step fails, on fakes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.rehearsal_report import RehearsalReport, StandInModel, rehearsed
from lmi_deploy.errors import LmiError, UsageRefused
from lmi_deploy.ports.hub import Hub
from lmi_deploy.sources.stand_in_folder import StandInSource, write_stand_in
from lmi_deploy.ui.rehearsal_text import report_lines
from lmi_deploy.workflows.rehearse import Rehearsal
from tests.support.fake_servers import Behaviour
from tests.support.local_app import RECIPE, LocalApp
from tests.support.recipe_parsing import parse

CLOUD = """\
name: tiny
model_id: org/tiny
engine: accelerate
instance_type: ml.g5.xlarge
weights: {via: job}
endpoint: {role: "arn:aws:iam::999999999999:role/team/serving"}
probe: {prompt: Hello, expect: Paris}
"""


@dataclass
class FolderSite:
    """A `RehearsalSite` without an emulated account: for target local."""

    folder: Path
    differing: tuple[str, ...] = ()

    def write_model(
        self, listing: ModelListing, model: StandInModel, copied: Mapping[str, Path]
    ) -> tuple[Hub, ModelListing]:
        write_stand_in(self.folder / "model", model, copied)
        source = StandInSource(self.folder / "model")
        return source, source.stand_in_listing(listing)

    def compiled_source(self, folder: Path) -> Hub:
        return StandInSource(folder)

    def start_emulator(self, python: Path, region: str) -> None:
        raise AssertionError("target local has no account")

    def grant(self, spec: Spec) -> bool:
        return False

    def artifact_differences(self, spec: Spec, artifact: Artifact) -> tuple[str, ...]:
        return self.differing

    def emulated_seconds(self) -> float:
        return 0.0

    def variables(self) -> Mapping[str, str]:
        return {}


@pytest.fixture
def app(tmp_path: Path) -> LocalApp:
    return LocalApp(tmp_path)


def rehearse(app: LocalApp, *, keep: bool = False, differing: tuple[str, ...] = ()) -> RehearsalReport:
    deps = app.deps()
    site = FolderSite(app.root / "site", differing)
    recipe = parse(RECIPE.encode(), str(app.root / "tiny.yaml"))
    events = Rehearsal(recipe, deps, site, lambda: deps, keep=keep).run()
    while True:
        try:
            next(events)
        except StopIteration as done:
            report: RehearsalReport = done.value
            return report


def test_every_step_runs_once_and_nothing_is_left(app: LocalApp) -> None:
    report = rehearse(app)
    assert [step.name for step in report.steps] == [
        *("write the stand-in model", "resolve the recipe", "up", "invoke", "invoke, streamed"),
        *("bad requests", "update", "rollback", "down"),
    ]
    assert not app.observed().exists
    assert not app.observed().servers


def test_kept_deployment_is_not_taken_down(app: LocalApp) -> None:
    report = rehearse(app, keep=True)
    assert report.steps[-1].name == "rollback"
    assert app.observed().exists


def test_error_names_the_step_that_failed(app: LocalApp) -> None:
    with pytest.raises(LmiError) as failed:
        rehearse(app, differing=("model.py",))
    assert failed.value.message.startswith("the rehearsal failed at: up: deployed files differ")
    assert failed.value.hint.endswith("rehearse it again; nothing was paid for")


def test_error_that_only_the_log_has_fails_the_rehearsal(app: LocalApp) -> None:
    line = "2026-11-29T02:59:16.858+00:00 ERROR an adapter could not be registered adapter=sql why=424 off"
    no_gpu = 'E1129 05:04:26.1 29805 cuda.cc:1] "CudaDriverHelper has not been initialized."'
    app.servers.next.append(
        Behaviour(why=f"{no_gpu}\n{line}\n2026-11-29T02:59:17.858+00:00 INFO  ready model=model")
    )
    with pytest.raises(LmiError) as failed:
        rehearse(app)
    expected = (
        "the rehearsal failed at: invoke, streamed: the model answers, but its log has 1 error: 424 off"
    )
    assert failed.value.message == expected
    assert "rehearse --keep" in failed.value.hint


def test_report_fits_80_columns_and_is_data(app: LocalApp) -> None:
    report = rehearse(app)
    assert max(map(len, report_lines(report))) <= 80
    fields = json.loads(json.dumps(report.fields))
    assert fields["cost"] == ""
    assert fields["stand_in"] == ""
    assert {step["step"] for step in fields["steps"]} >= {"up", "down"}


def test_unknown_fit_is_not_proved(app: LocalApp) -> None:
    report = rehearse(app)
    unknown = replace(report, estimate=report.estimate.plus("fit", "cannot tell: no such family"))
    assert not any("cannot tell" in line for line in unknown.proved)
    assert any("cannot tell" in line for line in unknown.not_provable)


def test_recipe_without_what_random_weights_and_an_empty_account_cannot_do() -> None:
    recipe = rehearsed(parse(CLOUD.encode(), "tiny.yaml"))
    assert recipe.probe is not None
    assert (recipe.probe.prompt, recipe.probe.expect) == ("Hello", None)
    assert (recipe.weights.via, recipe.endpoint.role) == ("stream", "serving")


def test_model_in_s3_is_refused_with_the_way_around() -> None:
    text = CLOUD.replace("org/tiny", "s3://bucket/model").replace("weights: {via: job}\n", "")
    recipe = parse(text.encode(), "tiny.yaml")
    with pytest.raises(UsageRefused) as refused:
        rehearsed(recipe)
    assert "--set model_id=./FOLDER" in refused.value.hint
