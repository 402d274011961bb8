"""SageMaker's host images: the driver of each, and which of them a container image can run on.

From the service model of botocore 1.44.5, which describes each of them (2026-11-21).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lmi_deploy.catalog.instances import Instance, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAmi:
    """`cuda` is the newest that the driver supports by itself; empty on a Neuron host."""

    name: str
    kind: Kind
    driver: str
    cuda: str = ""


_ALL: Final = (
    HostAmi(name="al2-ami-sagemaker-inference-gpu-2", kind="gpu", driver="NVIDIA 535", cuda="12.2"),
    HostAmi(name="al2-ami-sagemaker-inference-gpu-2-1", kind="gpu", driver="NVIDIA 535", cuda="12.2"),
    HostAmi(name="al2-ami-sagemaker-inference-gpu-3-1", kind="gpu", driver="NVIDIA 550", cuda="12.4"),
    HostAmi(name="al2023-ami-sagemaker-inference-gpu-4-1", kind="gpu", driver="NVIDIA 580", cuda="13.0"),
    HostAmi(name="al2-ami-sagemaker-inference-neuron-2", kind="neuron", driver="Neuron 2.19"),
)
AMIS: Final[Mapping[str, HostAmi]] = MappingProxyType({each.name: each for each in _ALL})
_OF_CUDA: Final = {
    "12": "al2-ami-sagemaker-inference-gpu-3-1",
    "13": "al2023-ami-sagemaker-inference-gpu-4-1",
}
"""By the major version, within which an older driver can run a newer image. Without one, SageMaker's default host has
an older driver, 470 on some, which is too old for both.
"""


def required_ami(cuda: str, kind: Kind) -> str:
    """The host image that an image of this CUDA needs; empty: SageMaker's default is enough, or none is known."""
    return _OF_CUDA.get(_major(cuda), "") if kind == "gpu" else ""


def mismatch(ami: str, cuda: str, instance: Instance) -> str:
    """Why a container image of this CUDA cannot run on that host image and instance; empty if no reason is known. An
    empty `ami` is SageMaker's default host.
    """
    host = AMIS.get(ami)
    if host is None:
        return ""
    if host.kind != instance.kind:
        devices = "GPUs" if host.kind == "gpu" else "Neuron devices"
        return f"{ami} is for {devices}, but {instance.name} has none"
    if host.kind == "gpu" and cuda and _major(cuda) != _major(host.cuda):
        # Both combinations fail, and neither leaves a log: the newer image exits before its first line, the older one
        # hangs in Creating (aws/sagemaker-python-sdk#6281, aws/deep-learning-containers#6187).
        return f"{ami} has driver {host.driver} for CUDA {host.cuda}, but the image is built on CUDA {cuda}"
    return ""


def _major(cuda: str) -> str:
    return cuda.partition(".")[0]
