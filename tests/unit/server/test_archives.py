"""Archives of models: extracted completely or not at all, and never outside of the server's own folder."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from lmi_deploy.server.models.archives import LEFT_FREE, BadArchive, ModelArchives, is_archive


def tar(path: Path, *members: tarfile.TarInfo, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def entry(name: str, size: int = 3, **also: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size if not also else 0
    for key, value in also.items():
        setattr(member, key, value)
    return member


@pytest.fixture
def archives(tmp_path: Path) -> ModelArchives:
    return ModelArchives(tmp_path / "extracted")


@pytest.mark.parametrize("name", ["m.tar.gz", "m.tgz", "m.tar", "m.tar.bz2", "m.zip"])
@pytest.mark.parametrize("inside", ["", "m/"])
def test_flat_and_nested_archives_are_extracted(
    archives: ModelArchives, tmp_path: Path, name: str, inside: str
) -> None:
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(f"{inside}model.py", "x = 1")
    else:
        mode = {"m.tar": "w", "m.tar.bz2": "w:bz2"}.get(name, "w:gz")
        tar(path, entry(f"{inside}model.py"), mode=mode)
    assert is_archive(path)
    folder = archives.extract(path)
    assert [found.name for found in folder.iterdir()] == ["model.py"]
    assert folder.name == (inside.rstrip("/") or "1")
    archives.remove(folder)
    assert not list((tmp_path / "extracted").iterdir())


def test_link_inside_the_archive_is_kept(archives: ModelArchives, tmp_path: Path) -> None:
    link = entry("model.py", type=tarfile.SYMTYPE, linkname="blobs/one")
    folder = archives.extract(tar(tmp_path / "m.tar.gz", link, entry("blobs/one")))
    assert (folder / "model.py").read_bytes() == bytes(3)


@pytest.mark.parametrize(
    "member",
    [
        entry("../out"),
        entry("a/../../out"),
        entry("out", type=tarfile.SYMTYPE, linkname="/etc"),
        entry("out", type=tarfile.SYMTYPE, linkname="../../out"),
        entry("out", type=tarfile.LNKTYPE, linkname="../../out"),
        entry("out", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("out", type=tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name}-{member.type.decode()}-{member.linkname}",
)
def test_tar_with_outside_paths_or_devices_is_refused(
    archives: ModelArchives, tmp_path: Path, member: tarfile.TarInfo
) -> None:
    (tmp_path / "below").mkdir()
    path = tar(tmp_path / "below" / "m.tar.gz", entry("model.py"), member)
    with pytest.raises(BadArchive):
        archives.extract(path)
    assert not list((tmp_path / "extracted").iterdir())
    assert not list(tmp_path.rglob("out"))


def test_absolute_tar_path_is_extracted_inside_the_folder(archives: ModelArchives, tmp_path: Path) -> None:
    folder = archives.extract(tar(tmp_path / "m.tar.gz", entry("model.py"), entry("/etc/model.json")))
    assert (folder / "etc" / "model.json").is_file()


def test_nothing_is_written_through_a_link(archives: ModelArchives, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    link = entry("way", type=tarfile.SYMTYPE, linkname=str(tmp_path / "victim"))
    with pytest.raises(BadArchive):
        archives.extract(tar(tmp_path / "m.tar.gz", link, entry("way/in")))
    assert not list((tmp_path / "victim").iterdir())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../out", 0), ("/out", 0), ("a/../../out", 0), ("link", stat.S_IFLNK), ("pipe", stat.S_IFIFO)],
)
def test_zip_with_outside_paths_or_links_is_refused(
    archives: ModelArchives, tmp_path: Path, name: str, kind: int
) -> None:
    path = tmp_path / "m.zip"
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o644) << 16
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(info, "/etc/passwd")
    with pytest.raises(BadArchive, match="cannot be extracted"):
        archives.extract(path)
    assert not list((tmp_path / "extracted").iterdir())


@pytest.mark.parametrize("name", ["m.tar.gz", "m.zip"])
def test_archive_larger_than_the_disk_is_refused(tmp_path: Path, name: str) -> None:
    archives = ModelArchives(tmp_path / "extracted", free=lambda folder: LEFT_FREE + 1000)
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("one.bin", bytes(999))
            packed.writestr("two.bin", bytes(2))
    else:
        tar(path, entry("one.bin", 999), entry("two.bin", 2))
    with pytest.raises(BadArchive, match="contains at least 1001 bytes, but only 1000 are free"):
        archives.extract(path)
    assert not list((tmp_path / "extracted").iterdir())


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08 cut short"])
def test_damaged_archive_is_refused(archives: ModelArchives, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.tar.gz"
    path.write_bytes(content)
    with pytest.raises(BadArchive):
        archives.extract(path)
    data = tar(tmp_path / "whole.tar.gz", entry("a", 100_000)).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadArchive):
        archives.extract(path)


def test_folder_not_from_an_archive_is_kept(archives: ModelArchives, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    archives.remove(tmp_path / "mine")
    archives.remove(tmp_path / "extracted")
    archives.clear()
    assert (tmp_path / "mine").is_dir()
