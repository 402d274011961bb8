"""What `lmi doctor` sees on this machine: Python, the installed packages, the disks, the runtimes' programs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from lmi_deploy import __version__
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.setup_findings import SetupFinding, absent
from lmi_deploy.errors.install_command import install_command
from lmi_deploy.host.disk import free_space, nearest

PACKAGE: Final = "lmi-deploy"
_REQUIREMENT: Final = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([\d.]+))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*[\"']([\w-]+)[\"']")
_SHOWN: Final = ("boto3", "huggingface_hub")
_LOW, _FULL = 10_000_000_000, 500_000_000
"""Bytes: below the first most models do not fit, below the second not even a serving environment."""
_ANSWERS_WITHIN: Final = 10.0
"""Seconds for `docker version`: the daemon may be starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of the package's metadata. `extra` is empty for the core; `conditional`: only on some machines."""

    name: str
    least: str
    extra: str
    conditional: bool


def read_requirements(lines: Sequence[str]) -> tuple[Requirement, ...]:
    """As `importlib.metadata.requires` gives them."""
    found = []
    for line in lines:
        text, _, marker = line.partition(";")
        match = _REQUIREMENT.match(text.strip())
        extra = _EXTRA.search(marker)
        conditional = bool(_EXTRA.sub("", marker).strip(" ()\t"))
        if match and match[1].lower() != PACKAGE:
            found.append(
                Requirement(
                    name=match[1],
                    least=match[2] or "",
                    extra=extra[1] if extra else "",
                    conditional=conditional,
                )
            )
    return tuple(found)


def python_findings() -> Iterator[SetupFinding]:
    place = sys.executable or "an unknown program"
    yield SetupFinding("ok", f"{platform.python_version()} on {platform.system()} ({place})")


def version_findings() -> Iterator[SetupFinding]:
    """lmi and the packages that it always needs."""
    core = [one for one in _requirements() if not one.extra]
    shown = ", ".join(f"{name} {found}" for name in _SHOWN if (found := _version(name)))
    yield SetupFinding("ok", f"lmi {__version__}" + (f", {shown}" if shown else ""))
    for one in core:
        if why := _lacking(one):
            yield SetupFinding("broken", why, install_command())


def extra_findings(needed: Mapping[str, str]) -> Iterator[SetupFinding]:
    """`needed`: the extras that the recipe needs, each with its reason; others may be absent."""
    extras: dict[str, list[Requirement]] = {}
    for one in _requirements():
        if one.extra:
            extras.setdefault(one.extra, []).append(one)
    complete = [name for name, ones in extras.items() if not any(map(_lacking, ones))]
    if complete:
        yield SetupFinding("ok", f"installed: {', '.join(f'[{name}]' for name in complete)}")
    for name, ones in extras.items():
        lacking = [why for one in ones if (why := _lacking(one))]
        if lacking and name in needed:
            text = f"[{name}], {needed[name]}: {'; '.join(lacking)}"
            yield SetupFinding("broken", text, install_command(name))
    absent_ones = [name for name in extras if name not in complete and name not in needed]
    if absent_ones:
        text = f"not installed: {', '.join(f'[{name}]' for name in absent_ones)}"
        yield SetupFinding("ok", f"{text} (`lmi docs getting-started` says what each is for)")


def disk_findings(folders: Mapping[str, Path]) -> Iterator[SetupFinding]:
    """Free space and the right to write. Folders on the same disk are reported together."""
    by_space: dict[int, list[str]] = {}
    for name, folder in folders.items():
        if not _is_writable(nearest(folder)):
            variable = "LMI_STATE_HOME" if name == "state" else "HF_HOME or LMI_CACHE_HOME"
            yield SetupFinding(
                "broken",
                f"{name}: {folder} cannot be written",
                f"change the owner of the folder, or set {variable} to another one",
            )
        else:
            by_space.setdefault(free_space(folder), []).append(f"{name} ({folder})")
    for space, names in by_space.items():
        text = f"{size_text(space)} free for {', '.join(names)}"
        state = "broken" if space < _FULL else "warning" if space < _LOW else "ok"
        remedy = "" if state == "ok" else "free some space, such as with `lmi cache ls` and `lmi cache rm`"
        yield SetupFinding(state, text, remedy)  # type: ignore[arg-type]


def _is_writable(folder: Path) -> bool:
    """Root may write everywhere but on a disk that is mounted read-only."""
    read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    return folder.is_dir() and not read_only and os.access(folder, os.W_OK | os.X_OK)


def container_findings(
    kind: str, program: str, environ: Mapping[str, str], *, required: bool
) -> Iterator[SetupFinding]:
    """Whether the container engine answers, not only whether its program is installed."""
    try:
        got = subprocess.run(
            [program, "version"],
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN,
            check=False,
        )
        why = "" if got.returncode == 0 else _last_line(got.stderr) or f"exit code {got.returncode}"
    except (OSError, subprocess.TimeoutExpired) as reason:
        why = f"no response within {_ANSWERS_WITHIN:g} s"
        if isinstance(reason, OSError):
            why = reason.strerror or str(reason)
    if why:
        yield absent(
            f"{kind} does not answer: {why}",
            f"start it, and let your user use it; `{kind} version` shows the same",
            required=required,
        )
    else:
        yield SetupFinding("ok", f"{kind} answers ({program})")


def java_findings(environ: Mapping[str, str]) -> Iterator[SetupFinding]:
    """A Java runtime for DJLServing."""
    home = environ.get("JAVA_HOME")
    path = str(Path(home, "bin")) if home else environ.get("PATH", "")
    if found := shutil.which("java", path=path):
        yield SetupFinding("ok", f"Java: {found}")


def _requirements() -> tuple[Requirement, ...]:
    try:
        return read_requirements(requires(PACKAGE) or ())
    except PackageNotFoundError:
        return ()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _lacking(one: Requirement) -> str:
    """Why it is not satisfied, in words."""
    found = _version(one.name)
    if not found:
        return "" if one.conditional else f"{one.name} is not installed"
    if one.least and _numbers(found) < _numbers(one.least):
        return f"{one.name} is {found}, and lmi needs {one.least} or newer"
    return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
