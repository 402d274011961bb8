"""DJL's Python engine: found by its coordinates, verified, unpacked completely."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from lmi_deploy.errors import IntegrityError, TransferFailed, UsageRefused
from lmi_deploy.runtimes.environments import djl_python_engine
from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments
from tests.support.generators import result_of

VERSION = "0.34.0"
IN_A_REPOSITORY = Path("ai/djl/python/python") / VERSION / f"python-{VERSION}.jar"

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real jar: from LMI_WHEELHOUSE where that is set, else from Maven Central or the local repository."""
    if app := os.environ.get("LMI_WHEELHOUSE"):
        return djl_python_engine.wheelhouse_jar(VERSION, Path(app))
    return djl_python_engine.engine_jar(VERSION, environ=os.environ, scratch=tmp_path_factory.mktemp("maven"))


def _repository(root: Path, jar: Path) -> dict[str, str]:
    place = root / IN_A_REPOSITORY
    place.parent.mkdir(parents=True)
    shutil.copy(jar, place)
    return {**os.environ, "M2_REPO": str(root)}


@pytest.mark.skipif("LMI_WHEELHOUSE" in os.environ, reason="LMI_WHEELHOUSE: nothing is to be fetched")
def test_engine_is_downloaded_from_maven_central_into_the_cache_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environ = {**os.environ, "M2_REPO": str(tmp_path / "m2")}
    environments = LocalEnvironments(tmp_path / "cache", environ, None)
    assert not environments.engine_ready(VERSION)
    assert "218 kB" in result_of(environments.install_engine(VERSION, key="k"))
    assert environments.engine_ready(VERSION)
    engine = environments.engine(VERSION)
    assert sorted(path.name for path in engine.iterdir()) == ["djl_python", "djl_python_engine.py"]
    assert [path.name for path in engine.parent.iterdir()] == [engine.name]
    assert not (tmp_path / "m2").exists()
    assert capfd.readouterr() == ("", "")
    assert result_of(environments.install_engine(VERSION, key="k")) == "already there"


def test_local_maven_repository_is_used(tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    environments = LocalEnvironments(tmp_path / "cache", _repository(tmp_path / "m2", jar), None)
    result_of(environments.install_engine(VERSION, key="k"))
    assert (environments.engine(VERSION) / "djl_python_engine.py").is_file()


def test_unreachable_maven_central_is_reported_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    environments = LocalEnvironments(tmp_path / "cache", {"M2_REPO": str(tmp_path / "m2")}, None)
    with pytest.raises(TransferFailed, match=r"ai\.djl\.python:python:0\.34\.0") as caught:
        result_of(environments.install_engine(VERSION, key="k"))
    assert "LMI_WHEELHOUSE" in caught.value.hint
    assert caught.value.details
    assert list((tmp_path / "cache/engines").iterdir()) == []


def test_engine_is_installed_from_a_wheelhouse(tmp_path: Path, jar: Path) -> None:
    app = tmp_path / "wheels"
    app.mkdir()
    environments = LocalEnvironments(tmp_path / "cache", {}, app)
    with pytest.raises(TransferFailed, match="not found; lmi downloads nothing"):
        result_of(environments.install_engine(VERSION, key="k"))
    shutil.copy(jar, app / f"python-{VERSION}.jar")
    result_of(environments.install_engine(VERSION, key="k"))
    assert environments.engine_ready(VERSION)


def test_wrong_jar_is_an_integrity_error_that_names_the_file(tmp_path: Path, jar: Path) -> None:
    environ = _repository(tmp_path / "m2", jar)
    copy = tmp_path / "m2" / IN_A_REPOSITORY
    copy.write_bytes(copy.read_bytes()[:-1])
    environments = LocalEnvironments(tmp_path / "cache", environ, None)
    with pytest.raises(IntegrityError, match="sha256") as caught:
        result_of(environments.install_engine(VERSION, key="k"))
    assert str(copy) in caught.value.message
    assert str(copy) in caught.value.hint
    assert not environments.engine_ready(VERSION)
    assert list((tmp_path / "cache/engines").iterdir()) == []


def test_version_without_a_checksum_is_refused(tmp_path: Path, jar: Path) -> None:
    with pytest.raises(UsageRefused, match=r"no checksum") as caught:
        djl_python_engine.checked(jar, "0.35.0")
    assert VERSION in caught.value.hint


@pytest.mark.parametrize(
    "member", ["../evil.py", "/evil.py", "djl_python/../../evil.py", "djl_python\\..\\evil.py"]
)
def test_jar_member_outside_the_folder_is_refused(tmp_path: Path, member: str) -> None:
    jar = tmp_path / "evil.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(member, "x")
    with pytest.raises(IntegrityError):
        djl_python_engine.unpack(jar, tmp_path / "engines" / "e")
    assert list((tmp_path / "engines").iterdir()) == []
    assert not list(tmp_path.rglob("evil.py"))


def test_engine_that_is_already_unpacked_is_reused(tmp_path: Path, jar: Path) -> None:
    folder = tmp_path / "engines" / "e"
    djl_python_engine.unpack(jar, folder)
    before = folder.stat().st_ino
    djl_python_engine.unpack(jar, folder)
    assert folder.stat().st_ino == before
    assert list(folder.parent.iterdir()) == [folder]
