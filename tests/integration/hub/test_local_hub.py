"""The local Hub is compatible: huggingface_hub and the `hf` command work with it unchanged."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import (
    HfApi,
    get_hf_file_metadata,
    get_session,
    hf_hub_download,
    hf_hub_url,
    snapshot_download,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils._http import parse_ratelimit_headers

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.emulator.faults.rules import Cut, FaultRule
from tests.support.hub import HubModels, HubState, LocalHub, Quota, serve_hub

WEIGHTS = bytes(range(256)) * 4096
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "empty.txt": b"",
    "model.safetensors": len(HEADER).to_bytes(8, "little") + HEADER + bytes(16),
    "nested/a/b.txt": b"b",
    "nested/tokenizer.json": b"{}" * 999,
    "pytorch_model.bin": WEIGHTS,
} | {f"shards/{n:02}.bin": WEIGHTS[n : 50_000 + n] for n in range(12)}


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_snapshot_download_with_eight_workers_is_cached(hub: LocalHub, tmp_path: Path) -> None:
    folder = snapshot_download("org/m", endpoint=hub.url, cache_dir=tmp_path, max_workers=8)
    assert contents(Path(folder)) == FILES
    hub.log.clear()
    assert snapshot_download("org/m", endpoint=hub.url, cache_dir=tmp_path, max_workers=8) == folder
    assert hub.log.bodies() == []


def test_api_reports_sizes_hashes_and_refs(hub: LocalHub) -> None:
    api = HfApi(endpoint=hub.url)
    model = api.model_info("org/m", files_metadata=True)
    sizes = {sibling.rfilename: sibling.size for sibling in model.siblings or ()}
    assert sizes == {path: len(content) for path, content in FILES.items()}
    by_name = {sibling.rfilename: sibling for sibling in model.siblings or ()}
    assert by_name["config.json"].lfs is None
    assert by_name["config.json"].blob_id == oid_of(FILES["config.json"], "git-sha1")
    assert by_name["empty.txt"].blob_id == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    large = by_name["pytorch_model.bin"].lfs
    assert large is not None
    assert (large.size, large.pointer_size, large.sha256) == (len(WEIGHTS), 132, oid_of(WEIGHTS, "sha256"))
    (branch,) = api.list_repo_refs("org/m").branches
    assert (branch.name, branch.target_commit) == ("main", model.sha)
    assert api.model_info("org/m", revision=model.sha).sha == model.sha


def test_tree_is_paginated(hub: LocalHub) -> None:
    hub.state.page_size = 5
    api = HfApi(endpoint=hub.url)
    paths = [entry.path for entry in api.list_repo_tree("org/m", recursive=True)]
    assert sorted(FILES) == sorted(path for path in paths if path in FILES)
    assert len(paths) == len(set(paths)) == len(FILES) + len(["nested", "nested/a", "shards"])
    assert len([entry for entry in hub.log.all() if "/tree/" in entry.path]) == 5
    assert [entry.path for entry in api.list_repo_tree("org/m", "nested")] == [
        "nested/a",
        "nested/tokenizer.json",
    ]
    (found,) = api.get_paths_info("org/m", ["config.json", "no"])
    assert found.path == "config.json"
    assert api.file_exists("org/m", "config.json")
    assert not api.file_exists("org/m", "no")


def test_safetensors_headers_are_read_by_range(hub: LocalHub) -> None:
    found = HfApi(endpoint=hub.url).get_safetensors_metadata("org/m")
    assert found.parameter_count == {"F32": 4}
    assert any(entry.range and entry.status == 206 for entry in hub.log.bodies())


def test_download_resumes_with_a_range(hub: LocalHub) -> None:
    url = hf_hub_url("org/m", "pytorch_model.bin", endpoint=hub.url)
    file = io.BytesIO(WEIGHTS[:1000])
    file.seek(1000)
    http_get(url, file, resume_size=1000, expected_size=len(WEIGHTS))
    assert file.getvalue() == WEIGHTS
    (body,) = [entry for entry in hub.log.bodies() if entry.path.startswith("/cdn/")]
    assert (body.range, body.status, body.sent) == ("bytes=1000-", 206, len(WEIGHTS) - 1000)


@pytest.mark.parametrize(
    ("requests", "status", "body"),
    [
        ("bytes=0-3", 206, b'{"mo'),
        ("bytes=-2", 206, b'"}'),
        ("bytes=20-900", 206, FILES["config.json"][20:]),
        ("bytes=900-", 416, b""),
        ("nonsense", 416, b""),
    ],
)
def test_range_requests_are_answered_exactly(hub: LocalHub, requests: str, status: int, body: bytes) -> None:
    url = hf_hub_url("org/m", "config.json", endpoint=hub.url)
    response = get_session().get(url, headers={"Range": requests})
    assert (response.status_code, response.content) == (status, body)
    full = get_session().get(url, headers={"Range": "bytes=0-3", "If-Range": '"other"'})
    assert (full.status_code, full.content) == (200, FILES["config.json"])


def test_signed_url_needs_no_token_and_expires(tmp_path: Path) -> None:
    now = [1_000_000.0]
    state = HubState(HubModels(), clock=lambda: now[0], link_seconds=60)
    with serve_hub({"org/m": FILES}, state=state) as hub:
        url = hf_hub_url("org/m", "pytorch_model.bin", endpoint=hub.url)
        signed = get_hf_file_metadata(url).location
        assert get_session().get(signed, headers={"Range": "bytes=0-1"}).content == WEIGHTS[:2]
        now[0] += 60
        late = get_session().get(signed)
        assert (late.status_code, b"Request has expired" in late.content) == (403, True)
        assert get_session().get(signed.replace("Signature=", "Signature=0")).status_code == 403
        assert get_session().get(get_hf_file_metadata(url).location).content == WEIGHTS


def test_access_errors_match_those_of_the_hub() -> None:
    state = HubState(HubModels(), tokens=frozenset({"good", "other"}))
    with serve_hub({"org/m": FILES, "org/gated": FILES, "org/private": FILES}, state=state) as hub:
        hub.settings("org/gated").gated = True
        hub.settings("org/gated").accepted = ("good",)
        hub.settings("org/private").private = True
        hub.settings("org/private").readers = ("good",)

        def head(repo: str, token: str = "", path: str = "config.json", revision: str = "main") -> str | None:
            url = hf_hub_url(repo, path, endpoint=hub.url, revision=revision)
            return get_hf_file_metadata(url, token=token or False).commit_hash

        def refused(kind: type[HfHubHTTPError], status: int, *args: str, **more: str) -> str:
            with pytest.raises(kind) as caught:
                head(*args, **more)
            assert caught.value.response.status_code == status
            return str(caught.value)

        assert head("org/gated", "good") == head("org/gated", "good")
        assert "authenticated to access it" in refused(GatedRepoError, 401, "org/gated")
        assert "not in the authorized list" in refused(GatedRepoError, 403, "org/gated", "other")
        assert HfApi(endpoint=hub.url, token=False).model_info("org/gated").gated == "auto"
        assert head("org/private", "good")
        assert "Invalid username or password." in refused(RepositoryNotFoundError, 401, "org/private")
        assert "404 Client Error" in refused(RepositoryNotFoundError, 404, "org/private", "other")
        assert "Invalid username or password." in refused(RepositoryNotFoundError, 401, "org/none")
        assert "Invalid rev id: v9" in refused(RevisionNotFoundError, 404, "org/m", revision="v9")
        assert "Entry Not Found" in refused(RemoteEntryNotFoundError, 404, "org/m", path="no.bin")
        assert "Invalid credentials" in refused(HfHubHTTPError, 401, "org/m", "bad")
        assert HfApi(endpoint=hub.url, token="good").whoami()["type"] == "user"
        HfApi(endpoint=hub.url, token="good").auth_check("org/m")


def test_rate_limits_are_counted_and_reset() -> None:
    now = [1_000_000.0]
    state = HubState(HubModels(), clock=lambda: now[0])
    state.quotas["resolvers"] = Quota("resolvers", limit=2, window=300, clock=state.clock)
    with serve_hub({"org/m": FILES}, state=state) as hub:
        url = hf_hub_url("org/m", "config.json", endpoint=hub.url)
        responses = [get_session().get(url) for _ in range(3)]
        assert [response.status_code for response in responses] == [200, 200, 429]
        now[0] += 100
        limit = parse_ratelimit_headers(get_session().get(url).headers)
        assert limit is not None
        assert (limit.resource_type, limit.remaining, limit.reset_in_seconds) == ("resolvers", 0, 200)
        assert (limit.limit, limit.window_seconds) == (2, 300)
        now[0] += 200
        assert get_session().get(url).status_code == 200


def test_huggingface_hub_recovers_from_a_cut_body(hub: LocalHub, tmp_path: Path) -> None:
    hub.fail(FaultRule(do=Cut(1000), method="GET", path="^/cdn/"))
    path = hf_hub_download("org/m", "pytorch_model.bin", endpoint=hub.url, cache_dir=tmp_path)
    assert Path(path).read_bytes() == WEIGHTS
    assert next(entry.sent for entry in hub.log.bodies() if entry.path.startswith("/cdn/")) == 1000


def test_new_commit_moves_the_branch_and_old_commits_stay(hub: LocalHub, tmp_path: Path) -> None:
    api = HfApi(endpoint=hub.url)
    old = api.model_info("org/m").sha
    new = hub.publish("org/m", {"config.json": b"[]"}).commit
    assert api.model_info("org/m").sha == new != old
    for revision, content in ((old, FILES["config.json"]), ("main", b"[]")):
        path = hf_hub_download(
            "org/m", "config.json", endpoint=hub.url, cache_dir=tmp_path, revision=revision
        )
        assert Path(path).read_bytes() == content


def hub_environ(hub_url: str, home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return kept | {"HF_ENDPOINT": hub_url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_COLOR": "1"}


def test_hf_command_downloads_lists_and_verifies(hub: LocalHub, tmp_path: Path) -> None:
    hub.settings("org/m").xet = True
    url = hf_hub_url("org/m", "pytorch_model.bin", endpoint=hub.url)
    xet = get_hf_file_metadata(url).xet_file_data
    assert xet is not None
    assert xet.refresh_route.startswith(f"{hub.url}/api/models/org/m/xet-read-token/")

    def hf(*args: str) -> str:
        command = str(Path(sys.executable).with_name("hf"))
        done = subprocess.run(
            [command, *args], env=hub_environ(hub.url, tmp_path), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    hf("download", "org/m", "--max-workers", "8")
    (folder,) = (tmp_path / "hub" / "models--org--m" / "snapshots").iterdir()
    assert contents(folder) == FILES
    assert "org/m" in hf("cache", "ls")
    assert f"{len(FILES)}" in hf("cache", "verify", "org/m")


def test_folders_are_repositories_and_a_changed_file_is_a_new_commit(tmp_path: Path) -> None:
    main, branch = tmp_path / "org" / "m", tmp_path / "org" / "m@v1%2Fold"
    for folder, text in ((main, "new"), (branch, "old")):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(text)
    (main / ".hub.json").write_text(json.dumps({"gated": True, "accepted": ["t"], "tags": {"v1": "v1/old"}}))
    with serve_hub(state=HubState(HubModels(tmp_path))) as hub:
        assert hub.state.models.scan() == ["org/m"]
        api = HfApi(endpoint=hub.url, token="t")
        first = api.model_info("org/m")
        assert [sibling.rfilename for sibling in first.siblings or ()] == ["a.txt"]
        assert {b.name for b in api.list_repo_refs("org/m").branches} == {"main", "v1/old"}
        for revision in ("v1", "v1/old"):
            url = hf_hub_url("org/m", "a.txt", endpoint=hub.url, revision=revision)
            assert get_session().get(url, headers={"Authorization": "Bearer t"}).text == "old"
        (main / "a.txt").write_text("newer")
        assert api.model_info("org/m").sha != first.sha


def test_model_that_another_process_still_makes_is_not_served(tmp_path: Path) -> None:
    for folder in ("org/model", "org/.model-half", ".org/model"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text("{}")
    assert HubModels(tmp_path).scan() == ["org/model"]
