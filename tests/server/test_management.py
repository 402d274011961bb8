"""Models that are registered, described, scaled and removed while the server runs."""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.running_server import RunningServer, serving, write_model

pytestmark = pytest.mark.worker

ECHO = {"do": "echo", "text": "hi"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_model(tmp_path_factory.mktemp("management") / "m", MANY_WAYS)) as served:
        yield served


def ask(server: RunningServer, method: str, path: str) -> tuple[int, Any]:
    connection = server.connect()
    connection.request(method, path, headers={"Content-Length": "0"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def packed(folder: Path, name: str, inside: str) -> Path:
    path = folder / name
    model = write_model(folder / "packed", MANY_WAYS)
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in model.iterdir():
                archive.write(file, inside + file.name)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for file in model.iterdir():
                archive.add(file, inside + file.name)
    return path


@pytest.mark.parametrize(("name", "inside"), [("flat.tar.gz", ""), ("nested.tgz", "a/"), ("flat.zip", "")])
def test_model_is_registered_from_an_archive(
    server: RunningServer, tmp_path: Path, name: str, inside: str
) -> None:
    url = f"file:{packed(tmp_path, name, inside)}"
    model = name.partition(".")[0]
    assert ask(server, "POST", f"/models?url={url}") == (200, {"status": f'Model "{model}" registered.'})
    assert server.post(ECHO, f"/predictions/{model}") == (200, b"hi")
    assert ask(server, "GET", f"/models/{model}")[1][0]["models"][0]["modelUrl"] == url
    extracted = list((server.run_dir / "archives").iterdir())
    assert len(extracted) == 1
    assert extracted[0].stat().st_mode & 0o077 == 0
    assert ask(server, "DELETE", f"/models/{model}")[0] == 200
    assert not list((server.run_dir / "archives").iterdir())


def test_archive_writable_by_others_is_refused(server: RunningServer, tmp_path: Path) -> None:
    path = packed(tmp_path, "open.zip", "")
    path.chmod(0o666)
    status, result = ask(server, "POST", f"/models?url=file:{path}")
    assert (status, result["type"]) == (403, "ForbiddenException")
    assert f"{path} can be written by every user (mode 666)" in result["message"]


def test_extracted_files_of_a_failed_model_are_removed(server: RunningServer, tmp_path: Path) -> None:
    invalid = tmp_path / "broken.tar.gz"
    with tarfile.open(invalid, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("readme.txt"))
    status, result = ask(server, "POST", f"/models?url=file:{invalid}")
    assert (status, result["type"]) == (404, "ModelNotFoundException")
    assert result["message"].startswith("Failed to detect engine of the model: ")
    invalid.write_bytes(b"no archive")
    status, result = ask(server, "POST", f"/models?url=file:{invalid}")
    assert (status, result["message"]) == (400, f"{invalid} is neither a tar nor a zip archive")
    assert not list((server.run_dir / "archives").glob("*"))


def test_extracted_archives_are_removed_on_shutdown(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        assert ask(served, "POST", f"/models?url=file:{packed(tmp_path, 'one.zip', '')}")[0] == 200
        served.process.terminate()
        served.wait()
        assert not (served.run_dir / "archives").exists()


def test_model_store_with_only_an_archive_starts_empty(tmp_path: Path) -> None:
    packed(tmp_path, "model.tar.gz", "")
    (tmp_path / "store").mkdir()
    (tmp_path / "model.tar.gz").rename(tmp_path / "store" / "model.tar.gz")
    with serving(tmp_path / "store") as served:
        assert served.get("/ping") == (200, b"{}\n")


def test_model_versions_are_described_scaled_used_in_turn_and_removed(
    server: RunningServer, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0"):
        handler = (
            f"from djl_python import Output\ndef handle(inputs):\n    return Output().add('{version}')\n"
        )
        folder = write_model(tmp_path / version, handler)
        requests = f"/models?url=file://{folder}&model_name=n1&model_version={version}&synchronous=true"
        assert ask(server, "POST", requests) == (200, {"status": 'Model "n1" registered.'})
    described = ask(server, "GET", "/models/n1")[1]
    assert [(one["workflowName"], one["version"]) for one in described] == [("n1", "1.0"), ("n1", "2.0")]
    assert list(described[0]) == ["workflowName", "version", "models"]
    assert described[1]["models"][0]["modelUrl"] == f"file://{tmp_path}/2.0"
    assert [one["version"] for one in ask(server, "GET", "/models/n1/2.0")[1]] == ["2.0"]
    assert {server.post({}, "/predictions/n1")[1] for _ in range(4)} == {b"1.0", b"2.0"}
    assert server.post({}, "/predictions/n1/2.0")[1] == b"2.0"

    line = 'Workflow "n1" worker scaled. New Worker configuration min workers:2 max workers:2'
    assert ask(server, "PUT", "/models/n1?min_worker=2&max_worker=2")[1] == {"status": f"{line}\n{line}"}
    groups = [one["models"][0]["workerGroups"][0] for one in ask(server, "GET", "/models/n1")[1]]
    assert [len(group["workers"]) for group in groups] == [2, 2]
    status, result = ask(server, "POST", f"/models?url=file://{tmp_path}/1.0&model_name=n1")
    assert (status, result["message"]) == (409, "Workflow n1 is already registered.")
    assert ask(server, "DELETE", "/models/n1")[0] == 200
    assert ask(server, "GET", "/models/n1")[0] == 404


def test_logging_workflow_and_url_requests_are_answered(server: RunningServer, tmp_path: Path) -> None:
    assert ask(server, "POST", "/server/logging?level=debug") == (200, {"status": "OK"})
    assert ask(server, "PUT", "/server/logging")[0] == 405
    assert ask(server, "POST", "/models?url=s3://bucket/other/") == (
        500,
        {"code": 500, "type": "IllegalArgumentException", "message": "Malformed URL: s3://bucket/other/"},
    )
    folder = write_model(tmp_path / "flow", MANY_WAYS)
    for also, output in (("", "registered."), ("&synchronous=false", "registration scheduled.")):
        requests = f"/workflows?url=file:{folder}/{also}"
        assert ask(server, "POST", requests)[1] == {"status": f'Workflow "flow" {output}'}
        assert ask(server, "DELETE", "/workflows/flow")[0] == 200


def test_missing_gpu_is_a_warning(tmp_path: Path) -> None:
    properties = "engine=Python\nload_on_devices=0\nminWorkers=1\nmaxWorkers=1\n"
    environ = {"PATH": "/nowhere"}
    with serving(write_model(tmp_path / "m", MANY_WAYS, properties), environ=environ) as served:
        assert served.post(ECHO) == (200, b"hi")
        assert "WARN  load_on_devices names an accelerator, but this machine has none" in served.text
