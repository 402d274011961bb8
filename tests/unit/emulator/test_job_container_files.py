"""The paths of a job's files, and the messages of its containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.jobs.job_container_files import exit_message, localized, relative_to


@pytest.mark.parametrize(
    ("key", "prefix", "place"),
    [
        ("in/code/run.py", "in/code/run.py", "run.py"),
        ("in/data/a", "in/data/", "a"),
        ("in/data/deep/a", "in/data", "deep/a"),
        ("in/data-2", "in/data", "data-2"),
        ("data-2", "data", "data-2"),
        ("a/b", "", "a/b"),
    ],
)
def test_object_key_becomes_a_relative_path(key: str, prefix: str, place: str) -> None:
    assert relative_to(prefix, key) == place


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/opt/ml/processing/x", "/r/opt/ml/processing/x"),
        ("--find-links=/opt/ml/processing", "--find-links=/r/opt/ml/processing"),
        ("cat '/opt/ml/a' > /opt/ml", "cat '/r/opt/ml/a' > /r/opt/ml"),
        ("file:///opt/ml/x", "file:///r/opt/ml/x"),
        ("/opt/mlflow /opt/ml-x my/opt/ml", "/opt/mlflow /opt/ml-x my/opt/ml"),
    ],
)
def test_container_paths_are_mapped_to_local_paths(text: str, path: str) -> None:
    assert localized(Path("/r"), text) == path


def host(root: Path, content: bytes) -> Path:
    path = root / "opt/ml/output/message"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return root


def test_exit_messages_are_joined_and_cut_between_characters(tmp_path: Path) -> None:
    first, second = host(tmp_path / "1", b"one "), host(tmp_path / "2", "é".encode() * 700)
    message = exit_message([first, tmp_path / "none", second])
    assert message == "one " + "é" * 510
    assert exit_message([tmp_path / "none"]) == ""


def test_exit_message_that_is_not_utf_8_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(HostingFailed, match="not UTF-8"):
        exit_message([host(tmp_path, b"\xff\xfe")])
