"""Accelerators by their common names: those of SageMaker's instance types and other usual ones."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from lmi_deploy.catalog.instances import Accelerators, instance
from lmi_deploy.catalog.sagemaker_limits import names as limit_names
from lmi_deploy.domain.byte_units import GIB, MIB

_OTHERS: Final[dict[str, tuple[int, float, float]]] = {
    "NVIDIA GeForce RTX 3090": (24576, 23.52, 8.6),
    "NVIDIA GeForce RTX 4090": (24564, 23.52, 8.9),
    "NVIDIA GeForce RTX 5090": (32607, 31.34, 12.0),
    "NVIDIA L40": (46068, 44.34, 8.9),
    "NVIDIA A40": (46068, 44.34, 8.6),
    "NVIDIA RTX A6000": (49140, 47.27, 8.6),
    "NVIDIA RTX 6000 Ada": (49140, 47.27, 8.9),
}
"""MiB as nvidia-smi prints it; GiB that torch sees, the least of what public out-of-memory reports state ("GPU 0 has
a total capacity of 23.52 GiB", read 2026-11-22); compute capability (NVIDIA's CUDA GPU list)."""
_ALIASES: Final[dict[str, str]] = {
    "t4": "NVIDIA T4",
    "l4": "NVIDIA L4",
    "a10g": "NVIDIA A10G",
    "l40s": "NVIDIA L40S",
    "l40": "NVIDIA L40",
    "a40": "NVIDIA A40",
    "a6000": "NVIDIA RTX A6000",
    "rtxa6000": "NVIDIA RTX A6000",
    "rtx6000ada": "NVIDIA RTX 6000 Ada",
    "v100": "NVIDIA Tesla V100 16GB",
    "v10016gb": "NVIDIA Tesla V100 16GB",
    "a10040gb": "NVIDIA A100-SXM4-40GB",
    "a10080gb": "NVIDIA A100-SXM4-80GB",
    "h100": "NVIDIA H100 80GB HBM3",
    "h10080gb": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H200",
    "h200141gb": "NVIDIA H200",
    "b200": "NVIDIA B200",
    "b300": "NVIDIA B300",
    "rtxpro4500": "NVIDIA RTX PRO 4500 Blackwell Server Edition",
    "rtxpro6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "rtx3090": "NVIDIA GeForce RTX 3090",
    "3090": "NVIDIA GeForce RTX 3090",
    "rtx4090": "NVIDIA GeForce RTX 4090",
    "4090": "NVIDIA GeForce RTX 4090",
    "rtx5090": "NVIDIA GeForce RTX 5090",
    "5090": "NVIDIA GeForce RTX 5090",
    "inferentia2": "AWS Inferentia2",
    "trainium": "AWS Trainium",
    "trainium2": "AWS Trainium2",
}
_SEVERAL: Final = {"a100": ("A100-40GB", "A100-80GB")}
USUAL: Final = (
    "T4",
    "L4",
    "A10G",
    "L40S",
    "A100-40GB",
    "A100-80GB",
    "H100",
    "H200",
    "B200",
    "RTX3090",
    "RTX4090",
    "RTX5090",
)
_FABRIC: Final = ("p4", "p5", "p6", "inf2", "trn")
"""Families whose devices are joined by NVLink or NeuronLink (AWS's instance pages); the g families have PCIe."""


def accelerator(name: str) -> Accelerators | str:
    """One device of this name; or, in words, why the name is ambiguous."""
    short = re.sub(r"[^a-z0-9]", "", name.lower())
    for prefix in ("nvidia", "tesla", "geforce", "aws"):
        short = short.removeprefix(prefix)
    if short in _SEVERAL:
        return f"--gpu {name}: ambiguous: name one of {' and '.join(_SEVERAL[short])}"
    full = _ALIASES.get(short, name)
    if full in _OTHERS:
        mib, usable, capability = _OTHERS[full]
        return Accelerators(
            kind="gpu",
            name=full,
            count=1,
            memory=mib * MIB,
            usable=int(usable * GIB),
            compute_capability=capability,
            cores=None,
        )
    found = _of_instances().get(full)
    return found or f"--gpu {name}: unknown; lmi knows {', '.join(USUAL)}"


def links(instance_type: str) -> str:
    """How the devices of an instance type are connected; empty if it has only one, or if unknown."""
    found = instance(instance_type)
    if found is None or found.accelerators is None or found.accelerators.count < 2:
        return ""
    family = found.family
    return "NVLink or NeuronLink" if family.startswith(_FABRIC) else "PCIe" if family.startswith("g") else ""


@cache
def _of_instances() -> dict[str, Accelerators]:
    found: dict[str, Accelerators] = {}
    for name in limit_names("instance_types"):
        one = instance(name)
        if one is not None and one.accelerators is not None:
            found.setdefault(one.accelerators.name, one.accelerators)
    return found
