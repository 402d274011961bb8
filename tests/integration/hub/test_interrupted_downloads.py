"""Downloads that end early: full disks, kills, Ctrl-C, and files of an earlier run."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.emulator.faults.rule_files import parse_rules
from lmi_deploy.errors import TransferFailed
from tests.support.hub import LocalHub
from tests.support.hub_client import FILES, SIZE, WEIGHTS, HubClient, contents


def test_too_little_disk_space_is_reported_before_the_download(hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    client.adapter.free = lambda _: 1_000_000
    hub.log.clear()
    with pytest.raises(TransferFailed) as caught:
        client.fetch(listing)
    total = sum(map(len, FILES.values()))
    assert total == 1_024_322
    assert "1.02 MB to download, but only 1.00 MB are free" in caught.value.message
    assert "free 24.3 kB more" in caught.value.hint
    assert hub.log.all() == []
    with pytest.raises(TransferFailed, match=r"1\.02 MB to download"):
        client.adapter.require_space(listing, listing.files)
    client.adapter.free = lambda _: total
    client.adapter.require_space(listing, listing.files)


def test_full_disk_fails_the_download_and_leaves_no_final_file(hub: LocalHub, tmp_path: Path) -> None:
    done = run_fetch(hub, tmp_path, before="resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))")
    assert "TransferFailed" in done.stdout
    assert f"model.safetensors: the cache at {tmp_path / 'hub'} fails: File too large" in done.stdout
    client = HubClient(hub, tmp_path)
    assert oid_of(WEIGHTS, "sha256") not in client.final_names()
    folder, _ = client.fetch(client.listed())
    assert contents(folder) == FILES


def run_fetch(hub: LocalHub, home: Path, *, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program(hub, home, before)], capture_output=True, text=True, timeout=60
    )


def program(hub: LocalHub, home: Path, before: str = "") -> str:
    return textwrap.dedent(f"""
        import resource, signal
        from pathlib import Path
        from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub
        from lmi_deploy.errors import LmiError
        from tests.support.frozen_clock import FrozenClock
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        {before}
        environ = {{"HF_ENDPOINT": {hub.url!r}, "HF_HOME": {str(home)!r}}}
        hub = HuggingFaceHub(HubSettings.read(environ, Path("/nowhere")), FrozenClock())
        listing = hub.listing("org/m", "main")
        try:
            for progress in hub.fetch(listing, listing.files, key="k"):
                print(int(progress.done), flush=True)
        except LmiError as exc:
            print(type(exc).__name__, exc.message)
        except KeyboardInterrupt:
            print("interrupted")
    """)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_download_resumes_where_it_stopped(
    number: signal.Signals, hub: LocalHub, tmp_path: Path
) -> None:
    hub.fail(*parse_rules('{"path": "^/cdn/", "do": {"stall": {"after": 600000, "seconds": 60}}}'))
    running = subprocess.Popen(
        [sys.executable, "-c", program(hub, tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    while int(running.stdout.readline()) < 600_000:
        pass
    running.send_signal(number)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    assert number == signal.SIGKILL or output.endswith("interrupted\n")
    hub.log.clear()
    client = HubClient(hub, tmp_path)
    folder, _ = client.fetch(client.listed())
    assert contents(folder) == FILES
    (body,) = [entry for entry in hub.log.bodies() if entry.path.startswith("/cdn/")]
    assert (body.range, body.sent) == (f"bytes=600000-{SIZE - 1}", SIZE - 600_000)


@pytest.mark.parametrize("left", [b"", WEIGHTS[:777], b"x" * 777, WEIGHTS + b"more", WEIGHTS, b"x" * SIZE])
def test_files_are_intact_whatever_an_earlier_run_left(left: bytes, hub: LocalHub, client: HubClient) -> None:
    listing = client.listed()
    part = client.home / "hub/models--org--m/blobs" / f"{oid_of(WEIGHTS, 'sha256')}.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    moved = sum(entry.sent for entry in hub.log.bodies() if entry.path.startswith("/cdn/"))
    good = len(left) if WEIGHTS.startswith(left) else 0
    assert moved in (SIZE - good, 2 * SIZE - len(left))
    assert not list(client.home.rglob("*.incomplete"))
