import json
import re
from pathlib import Path

import pytest

from lmi_deploy.catalog import instances, sagemaker_limits
from lmi_deploy.catalog.instances import Instance, instance
from tools import generate_instances


def _of(name: str) -> Instance:
    found = instance(name)
    assert found is not None
    return found


def test_instance_types_are_those_of_sagemaker() -> None:
    assert {name for name in instances.names() if instance(name)} == set(
        sagemaker_limits.names("instance_types")
    )
    assert instance("ml.g9.xlarge") is None
    assert instance("g5.xlarge") is None


def test_instance_table_contains_only_endpoint_types() -> None:
    table = json.loads(Path(instances.__file__).with_name("instances.json").read_text())
    assert set(table["types"]) <= set(instances.names())
    assert {row["accelerator"] for row in table["types"].values() if "accelerator" in row} == set(
        table["accelerators"]
    )


def test_only_types_without_a_source_are_unknown() -> None:
    unknown = {name for name in instances.names() if not _of(name).known}
    assert unknown == {
        *("ml.p2.xlarge", "ml.p2.8xlarge", "ml.p2.16xlarge", "ml.p6e-gb200.36xlarge", "ml.dl1.24xlarge"),
    }


def test_table_equals_what_the_installed_moto_generates() -> None:
    known = generate_instances.TABLE.read_text(encoding="ascii")
    fresh = generate_instances.written(generate_instances.table(json.loads(known)))
    assert fresh == known, "run `python -m tools.generate_instances`"


def test_accelerated_types_agree_with_ec2() -> None:
    described = generate_instances.ec2_types()
    wrong = []
    for name in instances.names():
        found, ours = described.get(name.removeprefix("ml.")), _of(name)
        if found is None or ours.accelerators is None:
            continue
        row = generate_instances.row_of(found)
        if (ours.vcpu, ours.memory, ours.nvme) != (
            row["vcpu"],
            row["memory_gib"] * 2**30,
            row["nvme_gb"] * 10**9,
        ):
            wrong.append(name)
    assert wrong == []


def test_types_without_accelerators_have_vcpus_memory_and_disks() -> None:
    found = _of("ml.r7gd.medium")
    assert (found.kind, found.vcpu, found.memory, found.nvme) == ("cpu", 1, 8 * 2**30, 59 * 10**9)
    assert (_of("ml.m7i.48xlarge").vcpu, _of("ml.c4.large").memory) == (192, int(3.75 * 2**30))


def test_ec2_regions_of_a_type() -> None:
    assert "eu-west-1" not in instances.ec2_regions("ml.p5.48xlarge")
    assert "us-east-1" in instances.ec2_regions("ml.p5.48xlarge")
    assert instances.ec2_regions("ml.p3.2xlarge") == ()


def test_described_gpu_type_has_all_its_values() -> None:
    found = _of("ml.g5.12xlarge")
    assert (found.kind, found.vcpu, found.memory) == ("gpu", 48, 192 * 2**30)
    assert (found.nvme, found.network_gbps) == (3_800_000_000_000, 40)
    assert found.accelerators is not None
    assert (found.accelerators.name, found.accelerators.count) == ("NVIDIA A10G", 4)
    assert found.accelerators.memory == 22888 * 2**20
    assert found.accelerators.usable is not None
    assert found.accelerators.usable < found.accelerators.memory


def test_undescribed_type_has_only_its_name() -> None:
    found = _of("ml.p6e-gb200.36xlarge")
    assert not found.known
    assert (found.vcpu, found.memory, found.nvme, found.accelerators) == (None, None, None, None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ml.c5.xlarge", "cpu"),
        ("ml.inf2.xlarge", "neuron"),
        ("ml.p2.xlarge", "gpu"),
        ("ml.dl1.24xlarge", "gaudi"),
    ],
)
def test_every_type_has_a_kind(name: str, kind: str) -> None:
    assert _of(name).kind == kind


@pytest.mark.parametrize(
    "name",
    [
        "ml.g4dn.xlarge",
        "ml.g5.xlarge",
        "ml.g6.xlarge",
        "ml.g6e.xlarge",
        "ml.g7.2xlarge",
        "ml.g7e.2xlarge",
        "ml.p4d.24xlarge",
        "ml.p5en.48xlarge",
        "ml.p6-b200.48xlarge",
        "ml.p6e-gb200.36xlarge",
        "ml.trn1n.32xlarge",
        "ml.trn2.48xlarge",
        "ml.c5d.large",
        "ml.r7gd.medium",
    ],
)
def test_types_with_local_disks_refuse_a_volume(name: str) -> None:
    assert _of(name).refuses_volume


@pytest.mark.parametrize(
    "name", ["ml.c5.xlarge", "ml.m5.large", "ml.inf2.xlarge", "ml.p3.2xlarge", "ml.t2.medium"]
)
def test_types_without_local_disks_accept_a_volume(name: str) -> None:
    assert not _of(name).refuses_volume


def test_volume_rule_matches_the_disks_of_every_described_type() -> None:
    described = [_of(name) for name in instances.names() if _of(name).known]
    assert [each.name for each in described if each.refuses_volume != bool(each.nvme)] == []


def test_graviton_types_have_architecture_arm64() -> None:
    arm = {_of(name).family for name in instances.names() if _of(name).architecture == "arm64"}
    assert arm == {family for family in _families() if re.fullmatch(r"[cmr]\dgn?d?", family)} | {"p6e-gb200"}
    assert "c7g" in arm
    assert "g5" not in arm


def _families() -> set[str]:
    return {_of(name).family for name in instances.names()}
