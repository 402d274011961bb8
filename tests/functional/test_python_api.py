"""`import lmi_deploy as lmi`: the same application as the commands, on the same fakes."""

from __future__ import annotations

import asyncio
import doctest
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import lmi_deploy as lmi
from lmi_deploy.api import recipes
from lmi_deploy.api.session import GIVEN, dependencies
from lmi_deploy.bench.report_file import from_json
from tests.support.fake_servers import FakeResponse
from tests.support.local_app import LocalApp


@pytest.fixture(autouse=True)
def api(app: LocalApp) -> Iterator[None]:
    token = GIVEN.set(app.deps)
    yield
    GIVEN.reset(token)


@pytest.fixture
def deployment() -> lmi.Deployment:
    return lmi.up("tiny.yaml").result()


def test_recipe_has_the_keys_of_its_file_and_of_its_overrides() -> None:
    recipe = lmi.Recipe.load(Path("tiny.yaml"), set={"name": "other", "endpoint.target": "local"})
    assert (recipe.name, recipe.model_id, recipe.target) == ("other", "org/tiny", "local")
    assert lmi.Recipe.load(set=["name=third"]).name == "third"
    assert lmi.Recipe.load(set="name=fourth").name == "fourth"


def test_values_of_overrides_are_those_of_python() -> None:
    given = {"options.dtype": "fp32", "options.max_new_tokens": 7, "endpoint": {"target": "local"}}
    recipe = lmi.Recipe.load("tiny.yaml", set=given)
    assert recipe.overrides[-1] == 'endpoint={"target": "local"}'
    assert dict(recipe.parse().options) == {"dtype": "fp32", "max_new_tokens": "7"}
    assert recipe.target == "local"


def test_validation_lists_every_mistake_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = lmi.Recipe.from_text(
        "name: Tiny\nmodel_id: org/tiny\nengine: accelerat\nendpoint: {target: local}\n"
    )
    found = recipe.validate()
    assert not found.is_valid
    assert [(problem.line, problem.key) for problem in found.problems] == [(1, "name"), (3, "engine")]
    assert "did you mean accelerate?" in str(found)
    assert lmi.Recipe.load("tiny.yaml").validate().is_valid
    assert capsys.readouterr() == ("", "")


def test_invalid_recipe_is_an_error_where_its_keys_are_needed() -> None:
    recipe = lmi.Recipe.load("tiny.yaml", set={"engine": "accelerat"})
    with pytest.raises(lmi.RecipeError) as caught:
        lmi.plan(recipe)
    assert caught.value.problems == recipe.validate().problems
    assert any("did you mean accelerate?" in note for note in caught.value.__notes__)


def test_plan_says_what_up_does_and_changes_nothing(app: LocalApp) -> None:
    plan = lmi.plan("tiny.yaml")
    assert not plan.is_empty
    assert not app.artifacts_left()
    assert str(plan).splitlines()[0] == f"tiny: {len(plan.actions)} actions"
    assert plan.to_dict()["actions"]
    titles = [event.title for event in lmi.up(plan) if isinstance(event, lmi.Finished)]
    assert titles == [action.title for action in plan.actions]
    assert lmi.plan("tiny.yaml").is_empty


def test_up_is_an_iterator_of_events_that_ends_with_the_deployment() -> None:
    run = lmi.up("tiny.yaml")
    events = [*run]
    started = [event.key for event in events if isinstance(event, lmi.Started)]
    assert started == [event.key for event in events if isinstance(event, lmi.Finished)]
    deployment = run.result()
    assert deployment.status().standing == "in-step"
    assert deployment.address.startswith("http://127.0.0.1:")
    assert repr(run) == "<lmi.up: complete>"


def test_up_does_nothing_until_asked_and_says_so(app: LocalApp) -> None:
    run = lmi.up("tiny.yaml")
    assert not app.artifacts_left()
    with pytest.warns(RuntimeWarning, match=r"lmi.up did nothing: .* call its \.result\(\)"):
        run.__del__()
    run.close()


def test_progress_is_shown_as_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    lmi.up("tiny.yaml").result(lmi.show)
    out, err = capsys.readouterr()
    assert out == ""
    assert "ok  start" in err
    assert "answered:" in err


def test_run_that_is_left_early_gives_back_its_lock_and_is_continued() -> None:
    for event in lmi.up("tiny.yaml"):
        if isinstance(event, lmi.Finished):
            break
    assert lmi.up("tiny.yaml").result().status().standing == "in-step"


def test_result_after_some_events_makes_the_steps_that_are_left() -> None:
    run = lmi.up("tiny.yaml")
    next(run)
    assert run.result().status().standing == "in-step"


def test_ctrl_c_while_an_event_is_shown_says_what_exists() -> None:
    def interrupt(event: lmi.Event) -> None:
        if isinstance(event, lmi.Finished):
            raise KeyboardInterrupt

    run = lmi.up("tiny.yaml")
    with pytest.raises(lmi.Interrupted) as caught:
        run.result(interrupt)
    assert "`lmi up` continues" in caught.value.hint
    with pytest.raises(lmi.Interrupted):
        run.result()
    assert lmi.up("tiny.yaml").result().status().standing == "in-step"


def test_failure_has_cause_and_remedy_in_its_traceback(broken: None) -> None:
    with pytest.raises(lmi.LmiError) as caught:
        lmi.up("tiny.yaml").result()
    assert caught.value.hint
    assert f"  next: {caught.value.hint}" in caught.value.__notes__


def test_closed_run_has_no_result() -> None:
    with lmi.up("tiny.yaml") as run:
        next(run)
    with pytest.raises(RuntimeError, match="closed before its end"):
        run.result()


def test_invoke_returns_text_and_metrics(answering: list[FakeResponse], deployment: lmi.Deployment) -> None:
    answer = deployment.invoke("Hello", system="Be short.", parameters={"max_tokens": 5})
    assert str(answer) == answer.text
    assert answer.text
    assert answer.metrics.tokens > 0


def test_stream_yields_the_same_text_in_pieces(deployment: lmi.Deployment) -> None:
    whole = deployment.invoke("Hello").text
    with deployment.stream("Hello") as stream:
        assert "".join(stream) == whole
    assert stream.metrics.total_seconds >= 0


def test_request_of_ones_own_is_sent_unchanged(deployment: lmi.Deployment) -> None:
    request = lmi.InferenceRequest(prompt="And now?", history=(lmi.Turn("Hello", "Hi"),))
    assert deployment.invoke(request).text


def test_deployment_is_found_by_name_and_by_recipe(deployment: lmi.Deployment) -> None:
    for name in ("tiny", "tiny.yaml"):
        assert lmi.Deployment.load(name).ref == deployment.ref
    with pytest.raises(lmi.NotFound, match="other: no such deployment"):
        lmi.Deployment.load("other", target="local")


def test_logs_are_lines(deployment: lmi.Deployment) -> None:
    assert [*deployment.logs()]


def test_bench_measures_each_load(deployment: lmi.Deployment, tmp_path: Path) -> None:
    shown: list[lmi.Event] = []
    found = deployment.bench(
        "Hello", concurrency=[1, 2], seconds=0.3, objectives={"p99_ms": 60_000}, progress=shown.append
    )
    assert [point.load.concurrency for point in found.points] == [1, 2]
    assert all(point.counts.succeeded for point in found.points)
    assert "concurrency" in str(found)
    found.save(tmp_path / "bench.json")
    assert from_json((tmp_path / "bench.json").read_text(), "bench.json") == found.report
    assert [event for event in shown if isinstance(event, lmi.Notice)]


def test_bench_in_a_notebook_has_an_event_loop_of_its_own(deployment: lmi.Deployment) -> None:
    async def cell() -> lmi.Benchmark:
        return deployment.bench("Hello", seconds=0.2)

    assert asyncio.run(cell()).points[0].counts.succeeded


def test_interrupted_bench_in_a_notebook_reports_what_was_measured(deployment: lmi.Deployment) -> None:
    async def cell() -> lmi.Benchmark:
        threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        return deployment.bench("Hello", seconds=20)

    loop = asyncio.new_event_loop()
    found = loop.run_until_complete(cell())
    loop.close()
    assert found.report.interrupted
    assert found.points[0].counts.succeeded


def test_bench_refuses_what_contradicts(deployment: lmi.Deployment) -> None:
    with pytest.raises(lmi.LmiError, match="concurrency and rate cannot be combined"):
        deployment.bench(concurrency=1, rate=2.0)
    with pytest.raises(lmi.LmiError, match="prompts: there are none"):
        deployment.bench([])


def test_down_deletes_all_and_a_second_one_nothing(app: LocalApp, deployment: lmi.Deployment) -> None:
    shown: list[lmi.Event] = []
    assert deployment.down(progress=shown.append)
    assert any(isinstance(event, lmi.Finished) for event in shown)
    assert deployment.down() == ()
    assert not app.artifacts_left()
    with pytest.raises(lmi.NotFound):
        deployment.invoke("Hello")


def test_price_limit_refuses_nothing_that_is_free() -> None:
    assert not lmi.plan("tiny.yaml", max_hourly=0.01).is_empty


def test_without_a_test_the_ports_are_those_of_the_composition() -> None:
    GIVEN.set(None)
    assert dependencies().targets.keys() == {"local", "sagemaker"}


def test_every_public_name_exists_and_no_other() -> None:
    for name in lmi.__all__:
        assert getattr(lmi, name) is not None
        assert name in dir(lmi)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lmi.nothing  # noqa: B018


def test_examples_of_the_docstrings_run() -> None:
    Path("chat.yaml").write_text(Path("tiny.yaml").read_text().replace("name: tiny", "name: chat"))
    assert doctest.testmod(recipes) == doctest.TestResults(failed=0, attempted=4)
