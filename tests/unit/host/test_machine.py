"""The limits of control groups count, not only the hardware."""

import os
import socket
from pathlib import Path

import pytest

from lmi_deploy.errors import LmiError
from lmi_deploy.host.machine import Accelerator, PortReservations, accelerators, machine


def _control_group(root: Path, path: str, **limits: str) -> None:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text("0::/a/b\n")
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in limits.items():
        (folder / name.replace("_", ".")).write_text(f"{text}\n")


def test_real_machine_has_memory_and_cores() -> None:
    found = machine(os.environ)
    assert found.memory > 0
    assert 1 <= found.cores <= (os.cpu_count() or 1)


def test_smallest_control_group_limit_is_used(tmp_path: Path) -> None:
    _control_group(tmp_path, "a/b", memory_max="max", cpu_max="max 100000")
    _control_group(tmp_path, "a", memory_max="1000000", cpu_max="50000 100000")
    found = machine({}, root=tmp_path)
    assert (found.memory, found.cores) == (1_000_000, 1)


def test_hardware_limits_are_used_without_control_groups(tmp_path: Path) -> None:
    assert machine({}, root=tmp_path).memory > 1_000_000


def _driver_tool(folder: Path, body: str) -> dict[str, str]:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_devices_are_listed_with_their_memory(tmp_path: Path) -> None:
    environ = _driver_tool(
        tmp_path, "printf 'NVIDIA H100 80GB HBM3, 81559, 9.0\\nNVIDIA GB10, [N/A], 12.1\\n'"
    )
    assert accelerators(environ) == (
        Accelerator(name="NVIDIA H100 80GB HBM3", memory=81559 * 1024**2, capability=9.0),
        Accelerator(name="NVIDIA GB10", memory=0, capability=12.1),
    )
    found = machine(environ, root=tmp_path)
    assert found.accelerators == (("NVIDIA H100 80GB HBM3", 81559 * 1024**2), ("NVIDIA GB10", 0))
    assert found.compute_capability == 9.0


def test_old_driver_without_compute_capability_lists_its_devices(tmp_path: Path) -> None:
    body = """case "$1" in *compute_cap*) exit 2;; esac; printf 'Tesla K80, 11441\\n'"""
    environ = _driver_tool(tmp_path, body)
    assert accelerators(environ) == (Accelerator(name="Tesla K80", memory=11441 * 1024**2),)
    assert machine(environ, root=tmp_path).compute_capability is None


@pytest.mark.parametrize("body", ["echo NVIDIA-SMI has failed; exit 9", "exec sleep 30"])
def test_failing_or_hanging_driver_tool_means_no_devices(tmp_path: Path, body: str) -> None:
    assert accelerators(_driver_tool(tmp_path, body), limit=0.2) == ()


def test_missing_driver_tool_means_no_devices(tmp_path: Path) -> None:
    assert accelerators({"PATH": str(tmp_path)}) == ()


def test_used_port_is_skipped() -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        ports = PortReservations("127.0.0.1", start=port)
        found = ports.reserve("a", frozenset({port + 1}))
        ports.release("a")
    assert found > port + 1


def test_two_programs_never_reserve_the_same_port() -> None:
    ours, theirs = (PortReservations("127.0.0.1", start=20000) for _ in range(2))
    first = ours.reserve("a")
    assert ours.reserve("a") == first, "planned again in the same process"
    assert theirs.reserve("b") != first
    assert ours.reserve("c") != first
    for name in "abc":
        ours.release(name)
        theirs.release(name)
    assert theirs.reserve("d") != first, "until its server has bound it"
    theirs.release("d")


def test_released_port_is_free_for_its_server() -> None:
    ports = PortReservations("127.0.0.1", start=20000)
    port = ports.reserve("a")
    with socket.socket() as server:
        with pytest.raises(OSError, match="in use"):
            server.bind(("127.0.0.1", port))
        ports.release("a")
        server.bind(("127.0.0.1", port))


def test_reserved_port_that_a_record_names_meanwhile_is_given_up() -> None:
    ports = PortReservations("127.0.0.1", start=20000)
    first = ports.reserve("a")
    assert ports.reserve("a", frozenset({first})) != first
    ports.release("a")


def test_foreign_address_is_an_error() -> None:
    with pytest.raises(LmiError, match="cannot listen"):
        PortReservations("192.0.2.1").reserve("a")


def test_no_free_port_is_an_error() -> None:
    with pytest.raises(LmiError, match="65535"):
        PortReservations("127.0.0.1", start=65535).reserve("a", frozenset({65535}))
