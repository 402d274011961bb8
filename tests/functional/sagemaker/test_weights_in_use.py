"""Weights that a deployment uses stay: by its record, and where that is gone by its endpoint."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.sagemaker.settings import TAG_WEIGHTS
from lmi_deploy.domain.weights import manifest_key, weights_prefix
from tests.support.cloud_app import CloudHouse

DELIVERIES = ("s3", "mount")


def _up(house: CloudHouse, *argv: str) -> str:
    """The name of the weights that it serves from."""
    house.up(*argv)
    (manifest,) = house.depot().weights.all()
    return manifest.name


def _forget(house: CloudHouse) -> None:
    store = house.depot().store
    store.delete([stored.key for stored in store.list("deployments/")])


def _take_off_tags(house: CloudHouse) -> None:
    """As an lmi that did not know the tag left them."""
    tags = house.cloud.world.tags
    for arn, pairs in tags.items():
        tags[arn] = tuple(pair for pair in pairs if pair[0] != TAG_WEIGHTS)


def _files(house: CloudHouse, name: str) -> list[str]:
    return [stored.key for stored in house.depot().store.list(weights_prefix(name))]


def test_gc_leaves_weights_that_a_live_record_names_though_their_manifest_is_gone(house: CloudHouse) -> None:
    name = _up(house)
    files = _files(house, name)
    assert files
    house.depot().store.delete([manifest_key(name)])
    ran = house.lmi("gc", "--yes", "--older-than", "0")
    assert ran.code == 0, ran.err
    assert _files(house, name) == files


@pytest.mark.parametrize("deliver", DELIVERIES)
@pytest.mark.parametrize("tagged", [True, False])
def test_weights_under_a_live_endpoint_stay_though_its_record_is_gone(
    house: CloudHouse, deliver: str, tagged: bool
) -> None:
    name = _up(house, "--set", f"weights.deliver={deliver}")
    _forget(house)
    if not tagged:
        _take_off_tags(house)
    files = _files(house, name)
    refused = house.lmi("weights", "rm", name, "--yes")
    assert refused.code == 5
    assert "the deployment tiny uses these weights" in refused.err
    house.depot().store.delete([manifest_key(name)])
    assert house.lmi("gc", "--yes", "--older-than", "0").code == 0
    assert _files(house, name) == files


def test_weights_of_another_generation_stay_without_a_record(house: CloudHouse) -> None:
    first = _up(house)
    house.up("--set", "files.ignore=[tokenizer_config.json]")
    assert len(house.depot().weights.all()) == 2
    _forget(house)
    assert house.lmi("weights", "rm", first, "--yes").code == 5


def test_without_an_endpoint_and_a_record_weights_may_go(house: CloudHouse) -> None:
    name = _up(house)
    _forget(house)
    house.cloud.world.endpoints.clear()
    for arn in [arn for arn in house.cloud.world.tags if ":endpoint/" in arn]:
        del house.cloud.world.tags[arn]
    assert house.lmi("weights", "rm", name, "--yes").code == 0
    assert _files(house, name) == []


def test_weights_ls_names_the_deployment_of_a_live_endpoint_without_a_record(house: CloudHouse) -> None:
    _up(house)
    _forget(house)
    told = house.lmi("weights", "ls", "--json").lines
    assert [line["used_by"] for line in told if "used_by" in line] == ["tiny"]
