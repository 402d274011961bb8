"""Sizes count allocated blocks; a file with another hard link elsewhere frees nothing."""

import os
from pathlib import Path

from lmi_deploy.host.disk import disk_use, free_space, nearest


def test_hard_links_of_one_file_count_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(os.urandom(65536))
    alone = disk_use(tmp_path / "in")
    os.link(tmp_path / "in/a", tmp_path / "in/b")
    assert disk_use(tmp_path / "in") == alone
    assert alone.size == alone.freed >= 65536


def test_hard_link_outside_keeps_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(os.urandom(65536))
    os.link(tmp_path / "in/a", tmp_path / "outside")
    assert disk_use(tmp_path / "in").freed == 0


def test_sparse_file_counts_its_allocated_blocks(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as out:
        out.truncate(10**9)
    assert disk_use(tmp_path).size < 10**6


def test_missing_path_has_size_zero_and_the_free_space_of_its_parent(tmp_path: Path) -> None:
    assert disk_use(tmp_path / "no/such").size == 0
    assert nearest(tmp_path / "no/such") == tmp_path
    assert free_space(tmp_path / "no/such") > 0
