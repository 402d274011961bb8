"""Write what EC2 knows into catalog/instances.json: sizes of the types without accelerators, and regions of the others.

`python -m tools.generate_instances`, after moto was updated: moto packages the answers of EC2's
DescribeInstanceTypes and DescribeInstanceTypeOfferings (Apache License 2.0). Types with accelerators are kept as they
are in the table, which has other sources, too. A test compares the table with what is installed.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lmi_deploy.catalog import sagemaker_limits

TABLE: Final = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog" / "instances.json"
MIB_OF_GIB: Final = 1024
_MOTO: Final = find_spec("moto")
assert _MOTO is not None
assert _MOTO.origin is not None
_RESOURCES: Final = Path(_MOTO.origin).parent / "ec2" / "resources"
"""Found without an import of moto's EC2, which takes a second."""
Row = dict[str, Any]


def table(known: Mapping[str, Any]) -> dict[str, Any]:
    """`known` with every type that SageMaker and EC2 have."""
    described = ec2_types()
    names = sagemaker_limits.names("instance_types")
    types = {name: row for name, row in known["types"].items() if "accelerator" in row}
    regions = _regions(frozenset(types))
    for name in names:
        if name not in types and (found := described.get(name.removeprefix("ml."))) is not None:
            types[name] = row_of(found)
    version = metadata.version("moto")
    sources = {
        **known["sources"],
        "types without accelerators": f"EC2 DescribeInstanceTypes, as moto {version} packages it",
        "regions": f"EC2 DescribeInstanceTypeOfferings, as moto {version} packages it",
    }
    order = {name: place for place, name in enumerate(known["types"])}
    ordered = sorted(types, key=lambda name: (order.get(name, len(order)), *_size(name)))
    return {
        **{key: known[key] for key in ("date", "source")},
        "sources": sources,
        "accelerators": known["accelerators"],
        "types": {name: types[name] for name in ordered},
        "ec2_regions": {name: " ".join(regions[name]) for name in ordered if name in regions},
    }


def ec2_types() -> dict[str, Row]:
    """EC2's answer for each type, by its name."""
    found: dict[str, Row] = _read(_RESOURCES / "instance_types.json.gz")
    return found


def _read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def row_of(found: Row) -> Row:
    """A type as the table has it."""
    cards = found["NetworkInfo"]["NetworkCards"]
    network = sum(card.get("BaselineBandwidthInGbps", 0) for card in cards)
    return {
        "vcpu": found["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": _plain(found["MemoryInfo"]["SizeInMiB"] / MIB_OF_GIB),
        "nvme_gb": found.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        **({"network_gbps": _plain(network)} if network else {}),
    }


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number


def _regions(names: frozenset[str]) -> dict[str, list[str]]:
    """Of each type that EC2 offers anywhere, the regions; those that SageMaker has no endpoints in are left out."""
    found: dict[str, list[str]] = {}
    for file in sorted(
        (_RESOURCES / "instance_type_offerings" / "region").iterdir(), key=lambda each: each.name
    ):
        region = file.name.removesuffix(".json.gz")
        if region not in sagemaker_limits.names("regions"):
            continue
        for offer in _read(file):
            if (name := f"ml.{offer['InstanceType']}") in names:
                found.setdefault(name, []).append(region)
    return found


def _size(name: str) -> tuple[str, float]:
    """Family, and the size as a number: large before xlarge before 2xlarge."""
    _, family, size = name.split(".")
    small = {"nano": 0.1, "micro": 0.2, "small": 0.3, "medium": 0.4, "large": 0.5, "xlarge": 1.0}
    return family, small.get(size) or float(size.removesuffix("xlarge"))


def written(table: Mapping[str, Any]) -> str:
    """One line a type, so that a change of one reads as one."""
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Rewrite the table, if it differs."""
    fresh = written(table(json.loads(TABLE.read_text(encoding="ascii"))))
    if fresh == TABLE.read_text(encoding="ascii"):
        print(f"{TABLE.name}: up to date")
        return
    TABLE.write_text(fresh, encoding="ascii")
    print(f"{TABLE.name}: written", file=sys.stderr)


if __name__ == "__main__":
    main()
