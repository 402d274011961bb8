"""The table of images compared with the wheel it was made from, botocore's registry hosts, and requests for
unknown images."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from lmi_deploy.catalog import images, sagemaker_limits
from lmi_deploy.catalog.images import image
from lmi_deploy.errors import Unresolvable
from tests.support.wheels import fetched
from tools import generate_images


def test_image_table_equals_the_contents_of_its_wheel() -> None:
    fresh = generate_images.table(fetched(generate_images.named_wheel()))
    path = Path(images.__file__).with_name("images.json")
    kept = json.loads(path.read_text())
    assert {**fresh, "date": kept["date"]} == kept, "run `python -m tools.generate_images`"
    assert generate_images.written(kept) == path.read_text()


def test_image_table_has_every_image_of_the_newest_sdk_release() -> None:
    try:
        wheel = fetched(generate_images.NEWEST)
    except subprocess.CalledProcessError:
        if os.environ.get("LMI_CI"):
            raise
        pytest.skip("needs a package registry, for the newest sagemaker-core")
    lines = generate_images.missing(table_of_images(), generate_images.table(wheel))
    lines += [f"{family} is not in FAMILIES" for family in generate_images.new_families(wheel)]
    assert not lines, f"{wheel.name} has more; run `python -m tools.generate_images newest`:\n" + "\n".join(
        lines
    )


def test_missing_images_are_listed_by_family_and_version() -> None:
    fresh = table_of_images()
    versions = fresh["families"]["djl-lmi"]["versions"]
    versions["0.39.0"] = {**versions["0.38.0"], "tags": {"gpu": "0.39.0-lmi30.0.0-cu130"}}
    versions["0.36.0"] = {**versions["0.36.0"], "tags": {"gpu": "0.36.0-lmi31.0.0-cu130"}}
    fresh["families"]["djl-lmi"]["latest"] = "0.39.0"
    assert generate_images.missing(table_of_images(), fresh) == [
        "djl-lmi 0.36.0 differs: djl-inference:0.36.0-lmi31.0.0-cu130",
        "djl-lmi 0.39.0 is missing: djl-inference:0.39.0-lmi30.0.0-cu130",
        "djl-lmi: the latest version is 0.39.0, not 0.38.0",
    ]
    assert generate_images.missing(table_of_images(), table_of_images()) == []


def test_new_family_of_a_model_server_is_listed(tmp_path: Path) -> None:
    wheel = tmp_path / "sagemaker_core-9.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("djl-lmi", "djl-next", "xgboost"):
            archive.writestr(f"{generate_images.FOLDER}/{name}.json", "{}")
    assert generate_images.new_families(wheel) == ["djl-next"]


def test_version_in_other_regions_is_listed_as_different() -> None:
    fresh = table_of_images()
    version = fresh["families"]["djl-lmi"]["versions"]["0.38.0"]
    fresh["registries"]["other"] = {**fresh["registries"][version["registries"]], "xx-new-1": "111122223333"}
    version["registries"] = "other"
    (line,) = generate_images.missing(table_of_images(), fresh)
    assert line.startswith("djl-lmi 0.38.0 differs: ")


def table_of_images() -> dict[str, Any]:
    """The packaged table, which a test may change."""
    table: dict[str, Any] = json.loads(Path(images.__file__).with_name("images.json").read_text())
    return table


def test_every_region_has_the_registry_host_of_botocore() -> None:
    partitions = botocore.session.get_session().get_data("endpoints")["partitions"]
    regions = {found.region for family in images.families() for found in _everywhere(family)}
    assert regions <= set(sagemaker_limits.names("regions"))
    for region in sorted(regions):
        (suffix,) = (each["dnsSuffix"] for each in partitions if re.match(each["regionRegex"], region))
        assert (region, images.host_suffix(region)) == (region, suffix)


def _everywhere(family: str) -> list[images.Image]:
    return [one for region in sagemaker_limits.names("regions") for one in images.published(family, region)]


def test_image_is_found_by_family_version_and_region() -> None:
    found = image("djl-lmi", "0.36.0", "us-west-2")
    assert found.uri == "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"
    assert (found.version, found.device, found.cuda) == ("0.36.0", "gpu", "13.0")
    assert image("djl-lmi", "0.28.0", "cn-north-1").uri == (
        "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/djl-inference:0.28.0-lmi10.0.0-cu124"
    )


@pytest.mark.parametrize("version", ["", "latest", "0.38.0", "0.38.0-lmi29.0.0-cu130", "0.38.0-lmi29"])
def test_latest_image_has_several_names(version: str) -> None:
    assert image("djl-lmi", version, "eu-west-1").tag == "0.38.0-lmi29.0.0-cu130"


def test_sdk_version_aliases_are_resolved() -> None:
    assert image("huggingface-llm", "2.0", "us-east-1").version == "2.4.0"
    assert image("vllm", "", "us-east-1").version == "0.30.0"


def test_tag_unknown_to_the_sdk_is_resolved() -> None:
    found = image("djl-lmi", "0.36.0-lmi20", "us-east-1")
    assert (found.tag, found.cuda) == ("0.36.0-lmi20.0.0-cu128", "12.8")
    assert image("djl-lmi", "0.36.0-cpu-full", "us-east-1").device == "cpu"
    assert "0.36.0-lmi20.0.0-cu128" in images.tags("djl-inference")


def test_family_with_several_devices_chooses_by_device() -> None:
    assert image("sagemaker-tritonserver", "26.05", "us-east-1", device="cpu").tag == "26.05-py3-cpu"
    assert image("sagemaker-tritonserver", "26.05", "us-east-1").tag == "26.05-py3"
    with pytest.raises(Unresolvable, match="has no image for neuron") as caught:
        image("sagemaker-tritonserver", "26.05", "us-east-1", device="neuron")
    assert caught.value.hint == "use one of cpu, gpu"


def test_family_with_one_device_ignores_the_instance() -> None:
    assert image("djl-neuronx", "", "us-east-1", device="neuron").device == "neuronx"


@pytest.mark.parametrize(
    ("family", "version", "output"),
    [
        ("djl-lmi", "0.37.0", "there is no image of 0.37"),
        ("djl-lmi", "0.27.0", "older servers are in djl-tensorrtllm"),
        ("djl-deepspeed", "0.28.0", "DJLServing 0.28 removed DeepSpeed"),
        ("djl-fastertransformer", "0.25.0", "DJLServing 0.25 removed FasterTransformer"),
        ("djl-neuronx", "0.35.0", "DJLServing 0.35 removed Neuron"),
        ("djl-tensorrtllm", "0.31.0", "there is no image of 0.31"),
        ("whisperx", "2", "lmi does not know whisperx 2"),
        ("djl", "0.36.0", "unknown image family 'djl'"),
    ],
)
def test_unknown_image_is_explained(family: str, version: str, output: str) -> None:
    with pytest.raises(Unresolvable, match=output) as caught:
        image(family, version, "us-east-1")
    assert caught.value.hint


def test_region_without_the_image_is_an_error() -> None:
    with pytest.raises(Unresolvable, match=r"no djl-lmi 0\.30\.0 in us-iso-east-1") as caught:
        image("djl-lmi", "0.30.0", "us-iso-east-1")
    assert "container.image" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("tag", "cuda"),
    [
        ("0.38.0-lmi29.0.0-cu130", "13.0"),
        ("2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04", "12.4"),
        ("0.29.0-neuronx-sdk2.19.1", ""),
        ("26.05-py3", ""),
    ],
)
def test_cuda_version_is_read_from_the_tag(tag: str, cuda: str) -> None:
    assert images.cuda(tag) == cuda


def test_three_digit_cuda_version_is_read() -> None:
    assert image("djl-deepspeed", "0.19.0", "us-east-1").cuda == "11.3"


def test_every_registry_account_of_aws_is_known() -> None:
    assert len(images.accounts("us-east-1")) == 17
    assert {"763104351884", "683313688378", "811284229777"} <= images.accounts("us-east-1")
    assert images.accounts("nowhere-1") == frozenset()
