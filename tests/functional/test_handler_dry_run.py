"""A handler tried on this machine before anything is created in the cloud."""

from dataclasses import replace

import pytest

from lmi_deploy.domain.events import Event, Notice, Started
from lmi_deploy.domain.spec import Spec
from lmi_deploy.errors import DeployFailed, Unresolvable
from lmi_deploy.planning.render import render
from lmi_deploy.recipe.parse import parse
from lmi_deploy.workflows import handler_dry_run, up
from tests.support.fake_servers import Behaviour
from tests.support.local_app import RECIPE, House


@pytest.fixture
def wanted(house: House) -> Spec:
    """Any place will do: a rehearsal replaces it."""
    return up.prepare(parse(RECIPE, "tiny.yaml"), house.deps()).spec


def ran(wanted: Spec, house: House) -> list[Event]:
    return list(handler_dry_run.rehearse(wanted, render(wanted), house.deps()))


def test_it_comes_up_is_said_and_leaves_nothing(house: House, wanted: Spec) -> None:
    assert handler_dry_run.missing(wanted, house.deps())
    said = ran(wanted, house)
    titles = [event.title for event in said if isinstance(event, Started)]
    assert any(title.startswith("start the model server") for title in titles)
    assert not any("ask" in title for title in titles)
    assert isinstance(said[-1], Notice)
    assert house.state.names() == ()
    assert not house.servers.alive()
    assert not handler_dry_run.missing(wanted, house.deps())


def test_what_fails_is_said_and_leaves_nothing(house: House, wanted: Spec) -> None:
    house.servers.next.append(Behaviour(end="failed", why="ImportError: no flash_attn"))
    with pytest.raises(DeployFailed) as told:
        ran(wanted, house)
    assert told.value.message.startswith("tried on this machine before anything is created: the model server")
    assert "ImportError: no flash_attn" in str(told.value.details)
    assert "nothing was created or paid for" in told.value.hint
    assert house.state.names() == ()
    assert not house.servers.alive()


def test_given_up_half_way_it_leaves_nothing(house: House, wanted: Spec) -> None:
    under_way = handler_dry_run.rehearse(wanted, render(wanted), house.deps())
    while not house.servers.alive():
        next(under_way)
    under_way.close()
    assert house.state.names() == ()
    assert not house.servers.alive()


def test_an_engine_that_needs_its_devices_is_refused(house: House, wanted: Spec) -> None:
    vllm = replace(wanted, engine=replace(wanted.engine, name="vllm"))
    with pytest.raises(Unresolvable, match="--check-handler: engine vllm"):
        ran(vllm, house)
    assert handler_dry_run.missing(vllm, house.deps())


def test_two_rehearsals_at_once_take_no_port_from_each_other(house: House, wanted: Spec) -> None:
    other = replace(wanted, name="other")
    first = handler_dry_run.rehearse(wanted, render(wanted), house.deps())
    while not isinstance(event := next(first), Started) or "start the model server" not in event.title:
        pass
    # The first one has decided on everything and started nothing.
    assert isinstance(ran(other, house)[-1], Notice)
    assert isinstance(list(first)[-1], Notice)
    assert [launch.port for launch in house.servers.started] == [0, 0]
    assert not house.servers.alive()
