"""The environment of Hub users is read as huggingface_hub reads it."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lmi_deploy.errors import UsageRefused
from lmi_deploy.sources.hub import HubSettings

HOME = Path("/home/u")


def read(environ: Mapping[str, str]) -> HubSettings:
    return HubSettings.read(environ, HOME)


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({}, "/home/u/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"HF_HOME": "~/h"}, "/home/u/h/hub"),
        ({"HF_HOME": "$BASE/h", "BASE": "/b"}, "/b/h/hub"),
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c"),
        ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/old"}, "/c"),
    ],
)
def test_cache_folder_follows_the_environment(environ: Mapping[str, str], cache: str) -> None:
    assert read(environ).cache == Path(cache)


def test_huggingface_hub_uses_the_same_folders(tmp_path: Path) -> None:
    cases = [
        {},
        {"XDG_CACHE_HOME": "/x"},
        {"HF_HOME": "~/h"},
        {"HF_HOME": "$BASE/h", "BASE": "/b"},
        {"HF_HUB_CACHE": "/c"},
    ]
    program = "from huggingface_hub import constants as c; print(c.HF_HUB_CACHE, c.HF_TOKEN_PATH)"
    for environ in cases:
        given = {"HOME": str(tmp_path), **environ}
        done = subprocess.run(
            [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[0] == str(HubSettings.read(given, tmp_path).cache)


def test_token_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" from-file\r\n")
    in_file = {"HF_TOKEN_PATH": str(file)}
    cases: list[tuple[dict[str, str], str | None, str]] = [
        ({}, None, ""),
        ({"HF_TOKEN": "hf_1\n", **in_file}, "hf_1", "HF_TOKEN"),
        ({"HF_TOKEN": "", **in_file}, "from-file", str(file)),
        ({"HUGGING_FACE_HUB_TOKEN": "hf_2"}, "hf_2", "HUGGING_FACE_HUB_TOKEN"),
        ({"HF_HOME": str(tmp_path)}, "from-file", str(file)),
        ({"HF_TOKEN": "hf_1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, None, ""),
    ]
    for environ, token, token_from in cases:
        settings = read(environ)
        assert (settings.token.value if settings.token else None, settings.token_from) == (token, token_from)
        assert token is None or token not in repr(settings)


def test_other_settings_are_read_from_the_environment() -> None:
    plain = read({})
    assert (plain.endpoint, plain.offline, plain.symlinks) == ("https://huggingface.co", False, True)
    assert (plain.response_seconds, plain.stall_seconds, plain.ca_bundle) == (10.0, 10.0, None)
    result = read(
        {
            "HF_ENDPOINT": "https://mirror.example/hf/",
            "HF_HUB_OFFLINE": "yes",
            "HF_HUB_ETAG_TIMEOUT": "3",
            "HF_HUB_DOWNLOAD_TIMEOUT": "60",
            "REQUESTS_CA_BUNDLE": "/ca.pem",
            "HF_HUB_DISABLE_SYMLINKS": "true",
        }
    )
    assert (result.endpoint, result.offline, result.symlinks) == ("https://mirror.example/hf", True, False)
    assert (result.response_seconds, result.stall_seconds, result.ca_bundle) == (3.0, 60.0, Path("/ca.pem"))
    assert read({"TRANSFORMERS_OFFLINE": "1"}).offline
    assert read({"HF_HUB_ETAG_TIMEOUT": "soon", "HF_HUB_DOWNLOAD_TIMEOUT": "0"}).response_seconds == 10.0
    assert read({"REQUESTS_CA_BUNDLE": "/a", "SSL_CERT_FILE": "/b"}).ca_bundle is None


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://x", "https://", "https:// x"])
def test_invalid_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageRefused, match="HF_ENDPOINT: not an address"):
        read({"HF_ENDPOINT": endpoint})
