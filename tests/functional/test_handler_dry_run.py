"""The dry run of a handler on this machine, before anything is created in the cloud."""

from dataclasses import replace

import pytest

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Notice, Started
from lmi_deploy.errors import DeployFailed, Unresolvable
from lmi_deploy.planning.render import render
from lmi_deploy.workflows import handler_dry_run, up
from tests.support.fake_servers import Behaviour
from tests.support.local_app import RECIPE, LocalApp
from tests.support.recipe_parsing import parse


@pytest.fixture
def resolve_spec(app: LocalApp) -> Spec:
    """The target does not matter: a dry run replaces it."""
    return up.prepare(parse(RECIPE, "tiny.yaml"), app.deps()).spec


def lacking(expected: Spec, app: LocalApp) -> str:
    return app.deps().trial.lacking(expected, lambda _: app.hub)


def ran(expected: Spec, app: LocalApp) -> list[Event]:
    return list(handler_dry_run.rehearse(expected, render(expected), app.deps()))


def test_successful_dry_run_is_reported_and_leaves_nothing(app: LocalApp, resolve_spec: Spec) -> None:
    assert lacking(resolve_spec, app)
    events = ran(resolve_spec, app)
    titles = [event.title for event in events if isinstance(event, Started)]
    assert any(title.startswith("start the model server") for title in titles)
    assert not any("ask" in title for title in titles)
    assert isinstance(events[-1], Notice)
    assert app.state.names() == ()
    assert not app.servers.alive()
    assert not lacking(resolve_spec, app)


def test_failed_dry_run_is_reported_and_leaves_nothing(app: LocalApp, resolve_spec: Spec) -> None:
    app.servers.next.append(Behaviour(end="failed", why="ImportError: no flash_attn"))
    with pytest.raises(DeployFailed) as error:
        ran(resolve_spec, app)
    assert error.value.message.startswith(
        "the handler failed on this machine, before anything was created: the model server"
    )
    assert "ImportError: no flash_attn" in str(error.value.details)
    assert "Nothing was created or paid for" in error.value.hint
    assert app.state.names() == ()
    assert not app.servers.alive()


def test_aborted_dry_run_leaves_nothing(app: LocalApp, resolve_spec: Spec) -> None:
    under_way = handler_dry_run.rehearse(resolve_spec, render(resolve_spec), app.deps())
    while not app.servers.alive():
        next(under_way)
    under_way.close()
    assert app.state.names() == ()
    assert not app.servers.alive()


def test_dry_run_of_an_engine_that_cannot_run_here_is_refused(app: LocalApp, resolve_spec: Spec) -> None:
    neuronx = replace(resolve_spec, engine=replace(resolve_spec.engine, name="neuronx"))
    with pytest.raises(Unresolvable, match="--check-handler: lmi cannot run engine neuronx"):
        ran(neuronx, app)
    assert lacking(neuronx, app)


def test_two_concurrent_dry_runs_use_different_ports(app: LocalApp, resolve_spec: Spec) -> None:
    other = replace(resolve_spec, name="other")
    first = handler_dry_run.rehearse(resolve_spec, render(resolve_spec), app.deps())
    while not isinstance(event := next(first), Started) or "start the model server" not in event.title:
        pass
    # The first one has decided on everything and started nothing.
    assert isinstance(ran(other, app)[-1], Notice)
    assert isinstance(list(first)[-1], Notice)
    assert [launch.port for launch in app.servers.started] == [0, 0]
    assert not app.servers.alive()
