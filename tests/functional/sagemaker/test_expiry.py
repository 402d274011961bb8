"""The expiry of deployments: shown, extended, compared, and checked again before a deployment is deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import TAG_EXPIRES, TAG_TTL
from lmi_deploy.errors import CloudError
from tests.functional.sagemaker.test_lifecycle import CHANGED, steps
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

HOUR = RECIPE + "ttl: 1h\n"


def tags(app: CloudApp, name: str = "tiny") -> dict[str, str]:
    account = app.cloud.account_state
    return dict(account.tags[account.arn("endpoint", name)])


def expired(app: CloudApp, *names: str) -> None:
    """Expired deployments: created more than an hour ago with a ttl of one hour."""
    for name in names or ("tiny",):
        write_recipe(HOUR.replace("name: tiny", f"name: {name}"))
        app.up()
    app.clock.sleep(4000)


def before_the_lock(app: CloudApp, deed: Callable[[], object]) -> None:
    """Runs after `gc` listed the expired deployments, and before it takes the lock."""
    real, waiting = app.cloud.depot, [deed]

    def bucket_services(*args: object) -> object:
        found = real(*args)  # type: ignore[arg-type]
        hold = found.lock.hold if found else None

        def existing(name: str) -> object:
            if waiting:
                waiting.pop()()
            return hold(name)  # type: ignore[misc]

        if found:
            object.__setattr__(found.lock, "hold", existing)
        return found

    app.cloud.depot = bucket_services  # type: ignore[method-assign, assignment]


def test_gc_keeps_a_deployment_extended_during_its_prompt(app: CloudApp) -> None:
    expired(app)
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    later = (("lmi:deployment", "tiny"), (TAG_EXPIRES, "2999-01-01T00:00:00"))
    before_the_lock(app, lambda: account.tags.update({arn: later}))
    result = app.lmi("gc", "--yes", "--json")
    assert result.code == 0, result.out
    assert (result.result["ended"], result.result["kept"]) == (0, ["tiny"])
    assert "stays: it now runs until 2999-01-01T00:00:00" in result.out
    assert "tiny" in account.endpoints
    assert app.lmi("status", "tiny").code == 0


def test_gc_keeps_a_deployment_resumed_during_its_prompt(app: CloudApp) -> None:
    """Resources of an interrupted run that an `up` continued."""
    app.up()
    account, record = app.cloud.account_state, app.depot().records.read("tiny")
    assert record is not None
    kept = account.endpoints.pop("tiny")
    arn = account.arn("endpoint", "tiny")
    endpoint_tags = account.tags.pop(arn)
    app.depot().records.remove("tiny")

    def started() -> None:
        account.endpoints["tiny"] = kept
        account.tags[arn] = endpoint_tags

    before_the_lock(app, started)
    result = app.lmi("gc", "--yes", "--json")
    assert (result.code, result.result["kept"]) == (0, ["tiny"]), result.out
    assert account.models
    assert account.configs


def test_gc_continues_after_a_locked_or_failed_deployment_and_sums_up(app: CloudApp) -> None:
    expired(app, "tiny", "other", "third")
    with app.depot().lock.hold("other"):
        result = app.lmi("gc", "--yes")
        assert result.code == 5, result.err
    assert (
        "1 deployment could not be deleted: other; 2 deployments deleted, 0 leftovers removed" in result.err
    )
    assert "locked by lmi test" in result.err
    assert [*app.cloud.account_state.endpoints] == ["other"]
    app.cloud.account_state.failures.before["delete_endpoint"] = [CloudError("not now", hint="later")]
    failed = app.lmi("gc", "--yes", "--json")
    assert failed.code == 1
    assert "could not be deleted: other; 0 deployments" in failed.result["error"]["message"]
    assert app.lmi("gc", "--yes").code == 0
    assert app.cloud.account_state.endpoints == {}


def test_expiry_tag_without_time_zone_is_utc_and_an_invalid_one_is_ignored(app: CloudApp) -> None:
    app.up()
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    plain = account.tags[arn]
    account.tags[arn] = (*plain, (TAG_EXPIRES, "whenever"))
    assert "tiny" not in app.lmi("gc", "--yes").out
    account.tags[arn] = (*plain, (TAG_EXPIRES, "2001-01-01T00:00:00"))
    assert "expired at 2001-01-01T00:00:00" in app.lmi("gc", "--yes").out
    assert account.endpoints == {}


def test_ttl_change_is_planned_and_applied(app: CloudApp) -> None:
    app.up()
    write_recipe(HOUR)
    plan = app.lmi("plan", "--exit-code")
    assert (plan.code, "set the expiry of tiny to 1h from now" in plan.out) == (4, True)
    assert steps(app.lmi("up", "--yes", "--json").lines) == ["SetExpiry"]
    first = tags(app)
    assert first[TAG_TTL] == "3600"
    assert "nothing to do" in app.up().err
    write_recipe(RECIPE + "ttl: 8h\n")
    assert "ttl: 1h -> 8h" in app.lmi("plan").out
    app.up()
    assert tags(app)[TAG_EXPIRES] > first[TAG_EXPIRES]
    write_recipe(RECIPE)
    assert "ttl: 8h -> (none)" in app.lmi("plan").out
    app.up()
    assert not {TAG_EXPIRES, TAG_TTL} & tags(app).keys()


@pytest.mark.parametrize("changed", [(), CHANGED])
def test_up_keeps_an_extended_expiry(app: CloudApp, changed: tuple[str, ...]) -> None:
    write_recipe(HOUR)
    app.up()
    assert app.lmi("extend", "tiny", "7d").code == 0
    extended = tags(app)[TAG_EXPIRES]
    app.up(*changed)
    assert tags(app)[TAG_EXPIRES] == extended
    assert app.lmi("status", "tiny", "--json").result["expires"] == extended


def test_up_of_an_expired_deployment_warns_and_renews_the_expiry(app: CloudApp) -> None:
    expired(app)
    before = tags(app)[TAG_EXPIRES]
    plan = app.lmi("plan")
    assert f"tiny expired at {before}" in plan.err
    assert "set the expiry of tiny to 1h from now" in plan.out
    result = app.up()
    assert f"tiny expired at {before}" in result.err
    assert tags(app)[TAG_EXPIRES] > before
    assert "tiny" not in app.lmi("gc", "--yes").out
    assert "expired" not in app.lmi("plan").err


@pytest.mark.parametrize("command", [("rollback", "tiny"), ("scale", "tiny", "2")])
def test_expired_deployment_is_named_before_instances_start(app: CloudApp, command: tuple[str, ...]) -> None:
    write_recipe(HOUR)
    app.up()
    app.up("--set", "options.dtype=fp32")
    app.clock.sleep(2 * 3600)
    told = app.lmi(*command, "--yes")
    assert told.code == 0, told.err
    assert "`lmi gc` may delete it at any time; `lmi extend tiny --region us-east-1 8h` keeps it" in told.err
    assert app.lmi("extend", "tiny", "--region", "us-east-1", "8h").code == 0
    assert "may delete it" not in app.lmi("scale", "tiny", "1", "--yes").err


def test_up_without_ttl_removes_an_expired_extension(app: CloudApp) -> None:
    app.up()
    assert app.lmi("extend", "tiny", "60").code == 0
    app.clock.sleep(100)
    assert "no longer expires: the recipe has no ttl" in app.up().err
    assert TAG_EXPIRES not in tags(app)


def test_status_plan_and_ls_show_an_expired_deployment(app: CloudApp) -> None:
    write_recipe(HOUR)
    app.up()
    assert app.lmi("status", "tiny", "--json").result["expired"] is False
    app.clock.sleep(4000)
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"], status.result["expired"]) == (0, "in-step", True)
    assert (
        "(expired: `lmi gc` may delete it, `lmi extend tiny --region us-east-1 8h` keeps it)"
        in app.lmi("status", "tiny").out
    )
    assert "expired at" in app.lmi("plan").err
    (row,) = (line for line in app.lmi("ls", "--json").lines if line["event"] == "row")
    assert (row["expired"], row["expires"]) == (True, status.result["expires"])
    assert app.lmi("ls").out.splitlines()[1].endswith("yes")


@pytest.mark.parametrize("duration", ["59s", "91d", "999999999d", "7", "0h", "soon", "8 h", "-1h"])
def test_extend_accepts_the_same_durations_as_ttl(app: CloudApp, duration: str) -> None:
    app.up()
    result = app.lmi("extend", "tiny", "--", duration)
    assert result.code == 2
    assert "use 1m to 90d" in result.err or "duration" in result.err or "seconds" in result.err, result.err
    assert TAG_EXPIRES not in tags(app)


def test_extend_is_refused_while_the_deployment_is_locked(app: CloudApp) -> None:
    app.up()
    with app.depot().lock.hold("tiny"):
        result = app.lmi("extend", "tiny", "8h")
    assert (result.code, "locked by" in result.err) == (5, True)
