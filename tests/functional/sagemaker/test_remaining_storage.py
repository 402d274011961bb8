"""`lmi down` says where it deleted, what stays in billed storage, and which command deletes that."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.weights import manifest_key, weights_prefix
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

LOGS = "/aws/sagemaker/Endpoints/tiny"


def _run(app: CloudApp, command: str, *more: str) -> None:
    program, *argv = shlex.split(command)
    assert program == "lmi"
    done = app.lmi(*argv, *more)
    assert done.code == 0, done.err


def _weights(app: CloudApp) -> str:
    (manifest,) = app.depot().weights.all()
    return manifest.name


def test_down_names_the_account_and_the_weights_that_stay(app: CloudApp) -> None:
    app.up()
    name, caller = _weights(app), app.cloud.account_state.caller
    down = app.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    place = f"tiny (account {caller.account}, {caller.region})"
    assert down.err.startswith(f"delete {place}\n")
    *_, deleted, stays, command = down.err.splitlines()
    assert deleted == f"{place} is deleted: lmi looked again, and found nothing more to delete"
    assert stays == (
        f"  the weights {name} stay in the bucket, and cost storage; this deletes them, unless another "
        "deployment uses them:"
    )
    assert command == f"    lmi weights rm {name} --region {caller.region}"


def test_command_of_each_remaining_storage_deletes_it(app: CloudApp) -> None:
    app.up()
    app.cloud.logs.groups[LOGS] = ("a line",)
    result = app.lmi("down", "tiny", "--yes", "--json").result
    assert [(one["kind"], one["name"]) for one in result["remaining"]] == [
        ("weights", _weights(app)),
        ("logs", LOGS),
    ]
    for one in result["remaining"]:
        _run(app, one["command"], "--yes")
    assert app.depot().weights.all() == ()
    assert app.cloud.logs.groups == {}
    assert app.lmi("down", "tiny", "--yes", "--json").result["remaining"] == []


def test_command_of_incomplete_weights_deletes_them(app: CloudApp) -> None:
    app.up()
    name, store = _weights(app), app.depot().store
    store.delete([manifest_key(name)])
    (one,) = app.lmi("down", "tiny", "--yes", "--json").result["remaining"]
    assert (one["kind"], one["name"]) == ("incomplete-weights", name)
    assert list(store.list(weights_prefix(name)))
    app.clock.sleep(1)
    _run(app, one["command"], "--yes")
    assert list(store.list(weights_prefix(name))) == []


def test_purged_weights_and_deleted_logs_do_not_remain(app: CloudApp) -> None:
    app.up()
    app.cloud.logs.groups[LOGS] = ("a line",)
    assert app.lmi("down", "tiny", "--yes", "--purge", "--logs", "--json").result["remaining"] == []


def test_captured_requests_remain_without_a_command(app: CloudApp) -> None:
    write_recipe(RECIPE + "endpoint:\n  data_capture: {output: 's3://captures/tiny/', percentage: 20}\n")
    app.up()
    down = app.lmi("down", "tiny", "--yes", "--purge")
    assert down.code == 0, down.err
    assert down.err.splitlines()[-1] == (
        "  the captured requests in s3://captures/tiny/ stay, and cost storage; lmi never deletes them"
    )
