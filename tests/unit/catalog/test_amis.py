"""Host images, and the container images and instances they match."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog import amis, images, sagemaker_limits
from lmi_deploy.catalog.instances import Instance, instance


def _of(name: str) -> Instance:
    found = instance(name)
    assert found is not None
    return found


def test_every_host_ami_of_sagemaker_is_described() -> None:
    assert set(amis.AMIS) == set(sagemaker_limits.names("host_amis"))


@pytest.mark.parametrize("family", images.families())
def test_required_ami_of_every_image_matches_it(family: str) -> None:
    for version in images.versions(family):
        cuda = images.image(family, version, "us-east-1").cuda
        assert amis.mismatch(amis.required_ami(cuda, "gpu"), cuda, _of("ml.g5.xlarge")) == ""


def test_required_ami_follows_the_cuda_version() -> None:
    assert amis.required_ami("13.0", "gpu") == "al2023-ami-sagemaker-inference-gpu-4-1"
    assert amis.required_ami("12.8", "gpu") == "al2-ami-sagemaker-inference-gpu-3-1"
    assert amis.required_ami("11.8", "gpu") == ""
    assert amis.required_ami("", "gpu") == ""
    assert amis.required_ami("13.0", "cpu") == ""
    assert amis.required_ami("", "neuron") == ""


@pytest.mark.parametrize(
    ("ami", "cuda", "on", "output"),
    [
        ("al2-ami-sagemaker-inference-gpu-3-1", "13.0", "ml.g5.xlarge", "the image is built on CUDA 13.0"),
        ("al2023-ami-sagemaker-inference-gpu-4-1", "12.8", "ml.g5.xlarge", "NVIDIA 580 for CUDA 13.0"),
        ("al2-ami-sagemaker-inference-gpu-3-1", "12.8", "ml.c5.xlarge", "ml.c5.xlarge has none"),
        ("al2-ami-sagemaker-inference-neuron-2", "", "ml.g5.xlarge", "is for Neuron devices"),
        ("al2-ami-sagemaker-inference-gpu-2", "12.2", "ml.inf2.xlarge", "is for GPUs"),
    ],
)
def test_incompatible_ami_and_image_are_reported(ami: str, cuda: str, on: str, output: str) -> None:
    assert output in amis.mismatch(ami, cuda, _of(on))


@pytest.mark.parametrize(
    ("ami", "cuda", "on"),
    [
        ("", "13.0", "ml.g5.xlarge"),
        ("al2-ami-sagemaker-inference-gpu-3-1", "", "ml.g5.xlarge"),
        ("al2-ami-sagemaker-inference-gpu-2-1", "12.9", "ml.p4d.24xlarge"),
        ("al2-ami-sagemaker-inference-neuron-2", "", "ml.inf2.xlarge"),
    ],
)
def test_unknown_combination_of_ami_and_image_is_accepted(ami: str, cuda: str, on: str) -> None:
    assert amis.mismatch(ami, cuda, _of(on)) == ""
