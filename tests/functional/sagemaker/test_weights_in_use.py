"""Weights of a deployment are kept: by its record, or by its endpoint where the record is gone."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import TAG_WEIGHTS
from lmi_deploy.domain.weights import manifest_key, weights_prefix
from tests.support.cloud_app import CloudApp

DELIVERIES = ("s3", "mount")


def _up(app: CloudApp, *argv: str) -> str:
    """The name of the weights it serves."""
    app.up(*argv)
    (manifest,) = app.depot().weights.all()
    return manifest.name


def _forget(app: CloudApp) -> None:
    store = app.depot().store
    store.delete([stored.key for stored in store.list("deployments/")])


def _remove_tags(app: CloudApp) -> None:
    """As an older lmi, which did not set the tag, left them."""
    tags = app.cloud.account_state.tags
    for arn, pairs in tags.items():
        tags[arn] = tuple(pair for pair in pairs if pair[0] != TAG_WEIGHTS)


def _files(app: CloudApp, name: str) -> list[str]:
    return [stored.key for stored in app.depot().store.list(weights_prefix(name))]


def test_gc_keeps_weights_of_a_record_without_a_manifest(app: CloudApp) -> None:
    name = _up(app)
    files = _files(app, name)
    assert files
    app.depot().store.delete([manifest_key(name)])
    result = app.lmi("gc", "--yes", "--older-than", "0")
    assert result.code == 0, result.err
    assert _files(app, name) == files


@pytest.mark.parametrize("deliver", DELIVERIES)
@pytest.mark.parametrize("tagged", [True, False])
def test_weights_of_a_running_endpoint_without_a_record_are_kept(
    app: CloudApp, deliver: str, tagged: bool
) -> None:
    name = _up(app, "--set", f"weights.deliver={deliver}")
    _forget(app)
    if not tagged:
        _remove_tags(app)
    files = _files(app, name)
    refused = app.lmi("weights", "rm", name, "--yes")
    assert refused.code == 5
    assert "the deployment tiny uses these weights" in refused.err
    app.depot().store.delete([manifest_key(name)])
    assert app.lmi("gc", "--yes", "--older-than", "0").code == 0
    assert _files(app, name) == files


def test_weights_of_an_earlier_generation_are_kept_without_a_record(app: CloudApp) -> None:
    first = _up(app)
    app.up("--set", "files.ignore=[tokenizer_config.json]")
    assert len(app.depot().weights.all()) == 2
    _forget(app)
    assert app.lmi("weights", "rm", first, "--yes").code == 5


def test_weights_without_endpoint_and_record_can_be_deleted(app: CloudApp) -> None:
    name = _up(app)
    _forget(app)
    app.cloud.account_state.endpoints.clear()
    for arn in [arn for arn in app.cloud.account_state.tags if ":endpoint/" in arn]:
        del app.cloud.account_state.tags[arn]
    assert app.lmi("weights", "rm", name, "--yes").code == 0
    assert _files(app, name) == []


def test_weights_ls_names_the_deployment_of_an_endpoint_without_a_record(app: CloudApp) -> None:
    _up(app)
    _forget(app)
    messages = app.lmi("weights", "ls", "--json").lines
    assert [line["used_by"] for line in messages if "used_by" in line] == ["tiny"]


def test_weights_of_several_deployments_name_them_all(app: CloudApp) -> None:
    name = _up(app)
    app.up("--set", "name=other")
    row = next(line for line in app.lmi("weights", "ls", "--json").lines if line["event"] == "row")
    assert row["used_by"] == "other, tiny"
    refused = app.lmi("weights", "rm", name, "--yes")
    assert (refused.code, "the deployments other, tiny use these weights" in refused.err) == (5, True)
    assert "`lmi down other tiny`" in refused.err
