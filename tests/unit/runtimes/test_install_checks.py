"""Choices and checks before an installation, and the user's settings that reach uv."""

import io
import os
import sys
from pathlib import Path

import pytest

from lmi_deploy.domain.events import Line, Progress
from lmi_deploy.errors import DeployFailed
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.host.process_output import ProcessOutput
from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments
from lmi_deploy.runtimes.environments.install_checks import (
    EnvironmentInstall,
    choose,
    from_wheelhouse,
    require_space,
)
from lmi_deploy.runtimes.environments.uv import Install, Uv, settings
from tests.support.wheels import make_wheel

NOWHERE = {"ALL_PROXY": "http://127.0.0.1:9", "PATH": "/nonexistent"}
"""A proxy that refuses: no index answers."""


def _uv(folder: Path, environ: dict[str, str]) -> Uv:
    return Uv({**environ, "HOME": str(folder), "UV_CACHE_DIR": str(folder / "uv")}, folder)


def test_packages_without_torch_need_no_index(tmp_path: Path) -> None:
    assert choose(("six",), "idna\n", NOWHERE, _uv(tmp_path, NOWHERE)).backend == ""


@pytest.mark.parametrize(
    ("packages", "requirements"), [(("torch==2.13.0",), ""), (("six",), "# mine\ntorch\n")]
)
def test_unreachable_torch_index_falls_back_to_the_registry(
    tmp_path: Path, packages: tuple[str, ...], requirements: str
) -> None:
    chosen = choose(packages, requirements, NOWHERE, _uv(tmp_path, NOWHERE))
    assert chosen.backend == ""
    assert "registry" in chosen.words
    assert chosen.expected >= 10**9


def test_uv_torch_backend_of_the_user_is_kept(tmp_path: Path) -> None:
    environ = {**NOWHERE, "UV_TORCH_BACKEND": "cu128"}
    chosen = choose(("torch",), "", environ, _uv(tmp_path, environ))
    assert (chosen.backend, chosen.words) == ("", "torch as set by UV_TORCH_BACKEND")


def test_missing_wheelhouse_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DeployFailed, match="no such folder") as caught:
        from_wheelhouse(tmp_path / "none")
    assert "LMI_WHEELHOUSE" in caught.value.hint


def test_too_little_disk_space_is_refused_with_the_numbers(tmp_path: Path) -> None:
    with pytest.raises(DeployFailed, match=r"GB free, the serving environment needs about 1000 TB"):
        require_space(10**15, tmp_path / "environments", linked=lambda: False)


def test_too_little_disk_space_is_refused_before_the_build(tmp_path: Path) -> None:
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    wheels.mkdir()
    with (wheels / "large-1-py3-none-any.whl").open("wb") as sparse:
        sparse.truncate(10**12)
    environments = LocalEnvironments(cache, {**os.environ, "UV_CACHE_DIR": str(tmp_path / "uv")}, wheels)
    with pytest.raises(DeployFailed, match=r"free, the serving environment needs about 3.00 TB"):
        environments.require_space("e1", ("large",), "")
    assert not cache.exists()
    LocalEnvironments(cache, {}, None).require_space("e1", ("torch",), "")


def test_packages_already_on_disk_need_no_space(tmp_path: Path) -> None:
    require_space(10**15, tmp_path / "environments", linked=lambda: True)


def test_pip_settings_apply_where_uv_has_none() -> None:
    pip = {"PIP_INDEX_URL": "p", "PIP_EXTRA_INDEX_URL": "e", "PIP_CERT": "c"}
    assert settings(pip) == {
        **pip,
        "UV_DEFAULT_INDEX": "p",
        "UV_INDEX": "e",
        "SSL_CERT_FILE": "c",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    assert settings({**pip, "UV_DEFAULT_INDEX": "u"})["UV_DEFAULT_INDEX"] == "u"
    assert "UV_DEFAULT_INDEX" not in settings({**pip, "UV_INDEX_URL": "u"})


def test_python_is_never_downloaded() -> None:
    assert settings({"UV_PYTHON_DOWNLOADS": "automatic"})["UV_PYTHON_DOWNLOADS"] == "never"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("GET https://ann:s3cret@host/simple/", "GET https://***@host/simple/"),
        ("http://token@h:80/x and https://a:b@c", "http://***@h:80/x and https://***@c"),
        ("https://host/a@b", "https://host/a@b"),
        ("git+ssh://git@host/r", "git+ssh://***@host/r"),
    ],
)
def test_credentials_are_masked(line: str, shown: str) -> None:
    assert mask_urls(line) == shown


def test_uv_knows_whether_a_download_is_needed(tmp_path: Path) -> None:
    uv = _uv(tmp_path, {"PATH": os.environ["PATH"]})
    make_wheel(tmp_path / "wheels", "tinyone")
    (tmp_path / "r.txt").write_text("tinyone\n")
    install = Install(requirements=tmp_path / "r.txt", wheelhouse=tmp_path / "wheels")
    uv.create(tmp_path / "venv", Path(sys.executable))
    assert not uv.has_all(tmp_path / "venv", install)
    with uv.install(tmp_path / "venv", install) as running:
        assert list(running.lines(tick=9))
        assert running.exit_code() == 0
    uv.create(tmp_path / "again", Path(sys.executable))
    assert uv.has_all(tmp_path / "again", install)


def test_installer_output_is_masked_before_it_is_shown_or_stored(tmp_path: Path) -> None:
    log = io.StringIO()
    observed = EnvironmentInstall(key="k", expected=0, log=log)
    with ProcessOutput(["echo", "https://ann:s3cret@host/simple"], environ={}, cwd=tmp_path) as running:
        events = list(observed.follow(running))
    assert events == [Line(key="k", text="https://***@host/simple")]
    assert (observed.last_words(), log.getvalue()) == (
        ["https://***@host/simple"],
        "https://***@host/simple\n",
    )


def test_silent_installer_shows_progress(tmp_path: Path) -> None:
    observed = EnvironmentInstall(key="k", expected=10**9, log=io.StringIO())
    with ProcessOutput(["sleep", "60"], environ=os.environ, cwd=tmp_path) as running:
        beat = next(observed.follow(running))
    assert isinstance(beat, Progress)
    assert (beat.key, beat.unit, beat.total) == ("k", "bytes", 10**9)


def test_uv_runs_in_the_environment_of_the_user(tmp_path: Path) -> None:
    uv = _uv(tmp_path, {"PATH": os.environ["PATH"]})
    assert uv.cache() == tmp_path / "uv"
    assert uv.version()[0].isdigit()
