"""Serving environments and DJL's Python engine in the user's cache: created once, all or nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.domain.number_text import counted, seconds_text, size_text
from lmi_deploy.errors import NotFound, Refused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.disk import disk_use, write_atomically
from lmi_deploy.host.file_lock import file_lock, overwrite
from lmi_deploy.host.processes import end
from lmi_deploy.ports.environments import CacheEntry
from lmi_deploy.ports.processes import Process
from lmi_deploy.runtimes.environments import djl_python_engine
from lmi_deploy.runtimes.environments.install_checks import (
    EnvironmentInstall,
    choose,
    from_wheelhouse,
    on_one_disk,
    require_space,
    smallest,
)
from lmi_deploy.runtimes.environments.package_patches import repair_and_check
from lmi_deploy.runtimes.environments.uv import Install, Uv, written

_MARKER = ".complete.json"
_ENGINE = "djl-python-"
_GRACE = 2.0


class LocalEnvironments:
    """`<cache>/environments/<environment>/`, `<cache>/engines/djl-python-<version>/`, `<cache>/samples/<name>/`.

    Models downloaded from a bucket are beside them, in `<cache>/models/<label>/<commit>/`: they are listed and freed
    here, too.
    """

    def __init__(self, cache: Path, environ: Mapping[str, str], wheelhouse: Path | None) -> None:
        self._environments = cache / "environments"
        self._engines = cache / "engines"
        self._samples = cache / "samples"
        self._models = cache / "models"
        self._environ = environ
        self._wheelhouse = wheelhouse

    def ready(self, environment: str) -> bool:
        return (self._home(environment) / _MARKER).is_file() and self.python(environment).exists()

    def python(self, environment: str) -> Path:
        return self._home(environment) / "bin" / "python"

    def require_space(
        self, environment: str, packages: tuple[str, ...], requirements: str, setup: EnvironmentSetup = PLAIN
    ) -> None:
        if self.ready(environment):
            return
        wheels = self._wheelhouse and from_wheelhouse(self._wheelhouse)
        size = wheels.expected if wheels else setup.size or smallest(packages, requirements)

        def linked() -> bool:
            """Whether uv's cache, on the same disk, has all of it already."""
            with TemporaryDirectory() as scratch:
                uv = Uv(self._environ, Path(scratch))
                python = uv.interpreter(setup.python)
                if python is None:
                    return False
                venv = Path(scratch) / "venv"
                uv.create(venv, python)
                lines = (*packages, requirements)
                install = written(Path(scratch), lines, setup.overrides, self._wheelhouse)
                return on_one_disk(self._environments, uv.cache()) and uv.has_all(venv, install)

        require_space(size, self._environments, linked=linked)

    def build(
        self,
        environment: str,
        packages: tuple[str, ...],
        requirements: str,
        setup: EnvironmentSetup = PLAIN,
        *,
        key: str,
    ) -> Generator[Event, None, str]:
        with ExitStack() as stack:
            lock = self._environments / f".{environment}.lock"
            try:
                lock_file = stack.enter_context(file_lock(lock, wait=False))
            except BlockingIOError:
                yield Notice(
                    text=f"another lmi is building serving environment {environment}: waiting for it"
                )
                lock_file = stack.enter_context(file_lock(lock, wait=True))
            if _end_orphan(lock_file):
                self._uv().sweep()
            if self.ready(environment):
                return "already there"
            contents = (packages, requirements, setup)
            return (yield from self._build_alone(environment, contents, key=key, lock_file=lock_file))

    def engine_ready(self, version: str) -> bool:
        return djl_python_engine.is_complete(self.engine(version))

    def engine(self, version: str) -> Path:
        return self._engines / f"{_ENGINE}{version}"

    def install_engine(self, version: str, *, key: str) -> Generator[Event, None, str]:
        folder = self.engine(version)
        if self.engine_ready(version):
            return "already there"
        yield Line(
            key=key, text=f"{djl_python_engine.GROUP}:{djl_python_engine.ARTIFACT}:{version} -> {folder}"
        )
        with djl_python_engine.scratch_folder(self._engines / "maven") as scratch:
            if self._wheelhouse:
                jar = djl_python_engine.wheelhouse_jar(version, self._wheelhouse)
            else:
                jar = djl_python_engine.engine_jar(version, environ=self._environ, scratch=scratch)
            djl_python_engine.unpack(jar, folder)
            return (
                f"{size_text(jar.stat().st_size)}, sha256 {djl_python_engine.SHA256[version][:12]} as pinned"
            )

    def entries(self) -> tuple[CacheEntry, ...]:
        return tuple(self._found())

    def remove(self, name: str) -> int:
        entry = next((found for found in self._found(sizes=False) if found.name == name), None)
        if entry is None:
            raise NotFound(f"{name}: not in the cache", hint="`lmi cache ls` lists the entries")
        if entry.kind == "log":
            freed = entry.path.stat().st_size
            entry.path.unlink()
            return freed
        if entry.kind != "environment":
            return _remove_folder(entry.path)
        return self._remove_environment(entry.path)

    def _build_alone(
        self,
        environment: str,
        contents: tuple[tuple[str, ...], str, EnvironmentSetup],
        *,
        key: str,
        lock_file: IO[str],
    ) -> Generator[Event, None, str]:
        home, started = self._home(environment), time.monotonic()
        packages, requirements, setup = contents
        _remove_folder(home)
        uv = self._uv()
        if self._wheelhouse:
            choice = from_wheelhouse(self._wheelhouse)
        else:
            choice = choose(packages, requirements, self._environ, uv, size=setup.size)
        disk = f"about {size_text(choice.expected)} on disk ({choice.words})"
        disk = disk if choice.words else "its size is not known yet"
        yield Notice(text=f"building the worker's serving environment, once: {disk}, in {home}")
        python = uv.interpreter(setup.python)
        if python is None:
            yield Notice(text=f"Python {setup.python} is not on this machine: uv downloads it, about 30 MB")
            python = uv.download_interpreter(setup.python)
        uv_cache = uv.cache()
        try:
            uv.create(home, python)
            install = replace(
                written(home, (*packages, requirements), setup.overrides, self._wheelhouse),
                backend=choice.backend,
                copy=not on_one_disk(home, uv_cache) and not self._environ.get("UV_LINK_MODE"),
            )
            require_space(
                choice.expected, home, uv_cache, linked=lambda: not install.copy and uv.has_all(home, install)
            )
            count = yield from self._install(uv, install, choice.expected, key=key, lock_file=lock_file)
            yield from repair_and_check(home, setup, self._environ, key=key)
            took = time.monotonic() - started
            size = _complete(home, install, packages, uv=uv.version(), seconds=took)
        finally:
            if not self.ready(environment):
                _remove_folder(home)
                uv.sweep()
        return f"{counted(count, 'package')}, {size_text(size)}, {seconds_text(took)}"

    def _install(
        self, uv: Uv, install: Install, expected: int, *, key: str, lock_file: IO[str]
    ) -> Generator[Event, None, int]:
        home = install.requirements.parent
        log = home.with_name(f"{home.name}.log")
        code = 0
        try:
            with (
                log.open("w", encoding="utf-8", buffering=1) as out,
                uv.install(home, install) as running,
            ):
                overwrite(lock_file, json.dumps(dump(running.process)))
                observed = EnvironmentInstall(key=key, expected=expected, log=out)
                code = yield from observed.follow(running)
        finally:
            if not code:
                log.unlink(missing_ok=True)
        if code:
            raise observed.failure(home.name, log)
        return observed.packages

    def _uv(self) -> Uv:
        return Uv(self._environ, self._environments)

    def _home(self, environment: str) -> Path:
        return self._environments / environment

    def _found(self, *, sizes: bool = True) -> Iterator[CacheEntry]:
        for path in _folders(self._environments):
            note = "" if self.ready(path.name) else "unfinished"
            yield _entry("environment", path, note, sizes=sizes)
        for path in sorted(self._environments.glob("*.log")):
            yield _entry("log", path, "of a failed installation", sizes=sizes)
        for path in _folders(self._engines):
            unfinished = path.name.startswith(djl_python_engine.SCRATCH)
            yield _entry("engine", path, "unfinished" if unfinished else "", sizes=sizes)
        for path in _folders(self._samples):
            yield _entry("sample", path, "", sizes=sizes)
        for label in _folders(self._models):
            for path in _folders(label):
                yield replace(_entry("model", path, "", sizes=sizes), name=f"{label.name}/{path.name}")

    def _remove_environment(self, home: Path) -> int:
        try:
            with file_lock(home.with_name(f".{home.name}.lock"), wait=False):
                (home / _MARKER).unlink(missing_ok=True)
                return _remove_folder(home)
        except BlockingIOError as exc:
            raise Refused(
                f"{home.name}: being built right now", hint="wait until it is built, or stop that lmi"
            ) from exc


def _end_orphan(lock_file: IO[str]) -> bool:
    """Kill the installer of a builder that was killed: it writes to the same folder. Returns whether there was one."""
    try:
        orphan = load(Process, json.loads(lock_file.read()))
    except ValueError:
        return False
    end(orphan, grace=_GRACE, clock=SystemClock())
    return True


def _complete(home: Path, install: Install, packages: tuple[str, ...], *, uv: str, seconds: float) -> int:
    """Written last: without it the environment does not exist."""
    size = disk_use(home).size
    facts = {
        "packages": list(packages),
        "requirements": hashlib.sha256(install.requirements.read_bytes()).hexdigest(),
        "torch": install.backend or "registry",
        "size": size,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "uv": uv,
        "seconds": round(seconds, 1),
    }
    write_atomically(home / _MARKER, json.dumps(facts, indent=1) + "\n")
    return size


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _entry(kind: str, path: Path, note: str, *, sizes: bool) -> CacheEntry:
    if not sizes:
        return CacheEntry(kind=kind, name=path.name, path=path, size=0, note=note)
    if path.is_file():
        return CacheEntry(kind=kind, name=path.name, path=path, size=path.stat().st_size, note=note)
    use = disk_use(path)
    shared = use.size - use.freed
    if shared > use.size // 10:
        note = f"{note}, " * bool(note) + f"{size_text(shared)} shared with uv's cache"
    return CacheEntry(kind=kind, name=path.name, path=path, size=use.size, note=note)


def _remove_folder(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    freed = disk_use(folder).freed
    shutil.rmtree(folder)
    return freed
