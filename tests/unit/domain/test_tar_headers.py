"""An archive of some bytes whose header claims gigabytes is refused before they are read."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest

from lmi_deploy.errors import UsageRefused
from lmi_deploy.server.models.archives import BadArchive, ModelArchives
from lmi_deploy.workflows.import_source import read_source


@pytest.fixture(
    params=[tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE],
    ids=["long name", "long link", "pax", "pax of all"],
)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = request.param, 2 << 30
    path = tmp_path / "model.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    return path


def test_import_refuses_the_header(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageRefused, match="a header of 2147483648 bytes"):
        read_source(str(archive), None, tmp_path)


def test_model_server_refuses_the_header(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="a header of 2147483648 bytes"):
        ModelArchives(tmp_path / "models").extract(archive)


def test_long_names_of_usual_length_are_read(tmp_path: Path) -> None:
    path, name = tmp_path / "model.tar.gz", f"{'a' * 90}/{'b' * 90}/serving.properties"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(path, "w:gz", format=form) as archive:
            member = tarfile.TarInfo(name)
            archive.addfile(member)
        assert read_source(str(path), None, tmp_path).source.origin == str(path)
