"""`lmi hub serve`: huggingface_hub and lmi download from a folder as from the Hub."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import HubClient
from tests.support.json_output import require_described

pytestmark = pytest.mark.landing

LMI = str(Path(sys.executable).with_name("lmi"))
WEIGHTS = bytes(range(256)) * 12_000
INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model-1.safetensors": WEIGHTS,
    "model-2.safetensors": WEIGHTS[::-1],
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    "nested/tokenizer.json": b"{}" * 999,
}


@contextlib.contextmanager
def serving(
    root: Path, *flags: str, **variables: str
) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """The `ready` event of a running `lmi hub serve`, and its process, which is ended at last."""
    environ = {**os.environ, "LMI_CACHE_HOME": str(root.parent / "lmi-cache"), **variables}
    command = [LMI, "hub", "serve", str(root), "--port", "0", "--json", *flags]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        try:
            events = []
            for line in process.stdout:
                require_described(["hub", "serve", "--json"], line)
                events.append(json.loads(line))
                if events[-1]["event"] in ("ready", "result"):
                    break
            yield {**events[-1], "notices": [event["text"] for event in events[:-1]]}, process
        finally:
            process.send_signal(signal.SIGTERM)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def upstream() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES, "org/other": {"config.json": b"{}"}}) as hub:
        yield hub


def test_plain_folder_is_downloaded_by_huggingface_hub(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    write(tmp_path / "models" / "gpt2", {"config.json": b"{}"})
    with serving(tmp_path / "models") as (ready, _):
        url = ready["url"]
        assert [(model["model"], model["files"]) for model in ready["models"]] == [("gpt2", 1), ("org/m", 5)]
        hashed = [text for text in ready["notices"] if text.startswith("hashing")]
        assert len(hashed) == 2, "only the weights are announced"
        folder = snapshot_download("org/m", endpoint=url, cache_dir=tmp_path / "c")
        assert contents(Path(folder)) == FILES
        assert Path(hf_hub_download("gpt2", "config.json", endpoint=url, cache_dir=tmp_path / "c")).exists()
        assert [model.id for model in HfApi(endpoint=url).list_models()] == ["gpt2", "org/m"]
        assert [model.id for model in HfApi(endpoint=url).list_models(author="org")] == ["org/m"]
        assert HfApi(endpoint=url).model_info("org/m").sha == ready["models"][1]["commit"]
        # A model that arrives later is served, too.
        write(tmp_path / "models" / "org" / "late", {"config.json": b"{1}"})
        assert hf_hub_download("org/late", "config.json", endpoint=url, cache_dir=tmp_path / "c")
    with serving(tmp_path / "models") as (again, _):
        assert again["notices"] == [], "hashes are kept"
        assert ready["models"][1] in again["models"]


def test_caches_of_huggingface_hub_keep_commits_and_are_not_hashed(
    upstream: LocalHub, tmp_path: Path
) -> None:
    commit = HfApi(endpoint=upstream.url).model_info("org/m").sha
    snapshot_download("org/m", endpoint=upstream.url, cache_dir=tmp_path / "cache")
    local = tmp_path / "local" / "org" / "m"
    snapshot_download("org/m", endpoint=upstream.url, local_dir=local)
    for root in ("cache", "local"):
        with serving(tmp_path / root) as (ready, _):
            assert (ready["notices"], ready["models"][0]["commit"]) == ([], commit)
            for revision in ("main", commit):
                folder = snapshot_download(
                    "org/m", revision=revision, endpoint=ready["url"], cache_dir=tmp_path / "copy" / root
                )
                assert Path(folder).name == commit
            assert contents(Path(folder)) == FILES


def test_file_changed_after_its_download_gets_a_hash_and_a_commit_of_its_own(
    upstream: LocalHub, tmp_path: Path
) -> None:
    local = tmp_path / "models" / "org" / "m"
    snapshot_download("org/m", endpoint=upstream.url, local_dir=local)
    (local / "model-1.safetensors").write_bytes(WEIGHTS[2:])
    later = (local / "config.json").stat().st_mtime + 60
    os.utime(local / "model-1.safetensors", (later, later))
    with serving(tmp_path / "models") as (ready, _):
        assert ready["notices"] == ["hashing org/m model-1.safetensors, once"]
        assert ready["models"][0]["commit"] != HfApi(endpoint=upstream.url).model_info("org/m").sha
        found = hf_hub_download(
            "org/m", "model-1.safetensors", endpoint=ready["url"], cache_dir=tmp_path / "c"
        )
        assert Path(found).read_bytes() == WEIGHTS[2:]


def test_interrupted_download_is_served_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    (tmp_path / "models" / "org" / "m" / "model-2.safetensors").unlink()
    with serving(tmp_path / "models") as (ready, _):
        assert ready["notices"][-1].startswith("warning: org/m is incomplete, 1 file missing")
        assert "model-2.safetensors" in ready["notices"][-1]


def test_absent_models_are_refused_in_the_words_of_the_hub(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    write(tmp_path / "secret", {"key.json": b"{}"})
    with serving(tmp_path / "models") as (ready, _):
        api = HfApi(endpoint=ready["url"])
        with pytest.raises(RepositoryNotFoundError):
            api.model_info("org/absent")
        with pytest.raises(RevisionNotFoundError):
            api.model_info("org/m", revision="v9")
        with pytest.raises(RemoteEntryNotFoundError):
            hf_hub_download("org/m", "absent.bin", endpoint=ready["url"], cache_dir=tmp_path / "c")
        with pytest.raises(HfHubHTTPError, match="cannot filter by pipeline_tag"):
            list(api.list_models(pipeline_tag="text-generation"))
        port = ready["url"].rpartition(":")[2]
        for path in (
            "/api/models/..%2Fsecret",
            "/../secret/resolve/main/key.json",
            "/org/m/resolve/main/..%2F..%2F",
        ):
            assert raw_status(int(port), path) == 404, path


def raw_status(port: int, path: str, **headers: str | bytes) -> int:
    """Without a client that tidies the path first."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.putrequest("GET", path, skip_accept_encoding=True, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_links_out_of_the_folder_are_not_served(tmp_path: Path) -> None:
    models, outside = tmp_path / "models", tmp_path / "outside"
    write(outside, {"secret.txt": b"secret"})
    write(models / "org" / "m", FILES)
    (models / "org" / "m" / "vocab.txt").symlink_to(outside / "secret.txt")
    (models / "org" / "m" / "copy.json").symlink_to("config.json")
    (models / "org" / "linked").symlink_to(outside)
    with serving(models) as (ready, _):
        assert [(model["model"], model["files"]) for model in ready["models"]] == [("org/m", 6)]
        warned = [text for text in ready["notices"] if text.startswith("warning")]
        assert [str(outside / "secret.txt") in text for text in warned] == [True, True]
        port = int(ready["url"].rpartition(":")[2])
        paths = (
            "/org/m/resolve/main/vocab.txt",
            "/org/linked/resolve/main/secret.txt",
            "/api/models/org/linked",
        )
        assert [raw_status(port, path) for path in paths] == [404] * 3
        assert raw_status(port, "/org/m/resolve/main/copy.json") == 200


def test_web_page_whose_name_points_here_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    with serving(tmp_path / "models") as (ready, _):
        port = int(ready["url"].rpartition(":")[2])
        for host, status in (("evil.example", 403), (b"evil\xff.example", 403), (f"localhost:{port}", 200)):
            assert raw_status(port, "/api/models/org/m", Host=host) == status, host


def test_token_is_required_of_clients_where_one_is_set(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    with serving(tmp_path / "models", LMI_HUB_TOKEN="hf_mirror") as (ready, _):
        assert ready["needs_token"] is True
        for token in (False, "hf_wrong"):
            with pytest.raises(HfHubHTTPError) as refused:
                HfApi(endpoint=ready["url"], token=token).model_info("org/m")
            assert refused.value.response.status_code == 401
        port = int(ready["url"].rpartition(":")[2])
        assert raw_status(port, "/api/models/org/m", Authorization=b"Bearer \xff\xe9") == 401
        assert HfApi(endpoint=ready["url"], token="hf_mirror").model_info("org/m").sha


def test_download_continues_where_it_was_cut(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    with serving(tmp_path / "models") as (ready, _):
        from huggingface_hub import get_session

        url = f"{ready['url']}/org/m/resolve/main/model-1.safetensors"
        etag = get_session().head(url).headers["ETag"]
        for sent, status, content in (
            ({"Range": "bytes=100-199"}, 206, WEIGHTS[100:200]),
            ({"Range": "bytes=100-", "If-Range": etag}, 206, WEIGHTS[100:]),
            ({"Range": "bytes=100-", "If-Range": '"old"'}, 200, WEIGHTS),
            ({"Range": f"bytes={len(WEIGHTS)}-"}, 416, b""),
        ):
            response = get_session().get(url, headers=sent)
            assert (response.status_code, response.content) == (status, content), sent


def test_lmi_downloads_from_it_as_from_the_hub(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", FILES)
    with serving(tmp_path / "models") as (ready, _):
        client = HubClient(ready["url"], tmp_path / "home")
        listing = client.listed()
        assert listing.commit == ready["models"][0]["commit"]
        folder, _ = client.fetch(listing)
        assert contents(folder) == FILES


def test_ctrl_c_ends_it_with_the_sum_of_what_it_sent(tmp_path: Path) -> None:
    write(tmp_path / "models" / "org" / "m", {"config.json": b"{}"})
    with serving(tmp_path / "models") as (ready, process):
        hf_hub_download("org/m", "config.json", endpoint=ready["url"], cache_dir=tmp_path / "c")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(10) == 0
    require_described(["hub", "serve", "--json"], out)
    events = [json.loads(line) for line in out.splitlines()]
    assert events[-1] == {"event": "result", "ok": True, "exit_code": 0, "files_sent": 1, "bytes_sent": 2}


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["absent"], {}, "absent: no such folder"),
        (["."], {}, "contains no model"),
        ([".one"], {}, "is one model, not a folder of models"),
        ([".", "--host", "0.0.0.0"], {}, "could read the models"),
        ([".", "--no-token"], {"LMI_HUB_TOKEN": "x"}, "both --token and --no-token"),
        ([".", "--host", "256.1.1.1"], {"LMI_HUB_TOKEN": "x"}, "cannot be used"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], variables: dict[str, str], message: str, tmp_path: Path
) -> None:
    write(tmp_path / "empty" / ".one", {"config.json": b"{}"})
    ended = subprocess.run(
        [LMI, "hub", "serve", *arguments, "--port", "0"],
        cwd=tmp_path / "empty",
        env={**os.environ, **variables},
        text=True,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 2, ended
    assert message in ended.stderr
    assert "next: " in ended.stderr
