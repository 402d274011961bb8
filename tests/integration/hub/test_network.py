"""The network to the Hub: an unreachable host, proxies, certificates; and what messages never contain."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lmi_deploy.emulator.faults.rule_files import parse_rules
from lmi_deploy.errors import AccessError, LmiError, UsageRefused
from tests.support.hub import LocalHub
from tests.support.hub_client import FILES, HubClient

READ_SCRIPT = """
import os, sys
from pathlib import Path
from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub
from lmi_deploy.errors import LmiError
from tests.support.frozen_clock import FrozenClock
hub = HuggingFaceHub(HubSettings.read(os.environ, Path("/nowhere")), FrozenClock())
try:
    sys.stdout.buffer.write(hub.read(hub.listing("org/m", "main"), "config.json"))
except LmiError as exc:
    print(exc.message, "|", exc.hint)
"""


def read_settings(tmp_path: Path, environ: dict[str, str]) -> str:
    """What a new process reads: clients read proxy variables when they are created."""
    given = {
        "PATH": os.environ["PATH"],
        "HF_HOME": str(tmp_path),
        "HF_ENDPOINT": "http://hub.example",
        **environ,
    }
    done = subprocess.run(
        [sys.executable, "-c", READ_SCRIPT], env=given, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_proxy_of_the_environment_is_used(name: str, hub: LocalHub, tmp_path: Path) -> None:
    assert read_settings(tmp_path, {name: hub.url}) == FILES["config.json"].decode()
    assert len(hub.log.all()) == 2


def test_no_proxy_disables_the_proxy(hub: LocalHub, tmp_path: Path) -> None:
    environ = {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "HF_ENDPOINT": hub.url}
    assert read_settings(tmp_path, environ) == FILES["config.json"].decode()


def test_failing_proxy_is_named_by_its_variable(hub: LocalHub, tmp_path: Path) -> None:
    output = read_settings(
        tmp_path, {"HTTPS_PROXY": hub.url.replace("//", "//me:pa55@"), "HF_ENDPOINT": "https://hub.example"}
    )
    assert output.startswith("https://hub.example: cannot be reached: ")
    assert "a proxy refused the request: check HTTPS_PROXY" in output
    assert "pa55" not in output


def test_missing_ca_bundle_is_reported(hub: LocalHub, tmp_path: Path) -> None:
    client = HubClient(hub, tmp_path, {"REQUESTS_CA_BUNDLE": str(tmp_path / "none.pem")})
    with pytest.raises(UsageRefused, match=r"certificates: .*none.pem: No such file or directory"):
        client.listed()


def test_unreachable_hub_is_reported_with_the_cause(hub: LocalHub, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
        cases = [
            (dead, f"{dead}: cannot be reached: [Errno 111] Connection refused", "HF_ENDPOINT"),
            (
                "http://no.such.host.invalid",
                "http://no.such.host.invalid: cannot be reached: ",
                "HTTPS_PROXY",
            ),
            (hub.url.replace("http:", "https:"), "cannot be reached: [SSL", "speaks TLS"),
        ]
        for endpoint, message, hint in cases:
            client = HubClient(hub, tmp_path, {"HF_ENDPOINT": endpoint})
            with pytest.raises(AccessError) as caught:
                client.listed()
            assert message in caught.value.message
            assert hint in caught.value.hint
            assert "\n" not in caught.value.message


def test_signed_urls_and_tokens_are_never_reported(
    hub: LocalHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = "hf_canarycanarycanary"
    client = HubClient(hub, tmp_path, {"HF_TOKEN": token})
    listing = client.listed()
    lines: list[str] = [repr(client.settings), str(vars(client.adapter))]
    with caplog.at_level("DEBUG"):
        for do in (
            '{"cut": {"after": 5}}',
            '{"answer": {"status": 403}}',
            '{"flip": {"at": 1}}',
            '{"drop": {}}',
        ):
            hub.state.faults.clear()
            hub.fail(*parse_rules(f'{{"path": "^/cdn/", "times": null, "do": {do}}}'))
            with pytest.raises(LmiError) as caught:
                client.fetch(listing)
            lines += [caught.value.message, caught.value.hint, *caught.value.details]
    everything = "\n".join([*lines, caplog.text])
    assert "Signature" not in everything
    assert "/cdn/" not in everything
    assert token not in everything
    assert any(entry.authorized for entry in hub.log.all() if "/resolve/" in entry.path)
    assert not any(entry.authorized for entry in hub.log.all() if entry.path.startswith("/cdn/"))
    leaked = [path for path in tmp_path.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert leaked == []
    assert os.environ.get("HF_TOKEN") != token
