"""Weights from the Hub into S3, both over TLS on this machine: streamed, and as one would do it without lmi.

Needs Go 1.22 or newer, which builds the two servers. Environment variables:
LMI_BENCH_MIB        size of each of the four files in MiB (1024)
LMI_BENCH_LARGE_GIB  size of the one file that shows that memory stays the same, in GiB (40; it is never stored)
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import ratios, say, scratch_folder
from benchmarks.result import Figure, Result
from benchmarks.transfer_servers import Servers, missing, servers
from benchmarks.transfer_watch import ProcessSample, watched

MIB = 1 << 20
COUNT = 4
RUNS = 3
CAP = 60_000_000
MEMORY_MB = 256
_S5CMD = str(Path(sys.executable).with_name("s5cmd"))


@dataclass(frozen=True, slots=True)
class Contender:
    """Commands in a row; `staged` is a folder that they fill on the way."""

    commands: Sequence[Sequence[str]]
    more: Mapping[str, str]
    staged: Path | None = None


def run() -> Result:
    if why := missing():
        raise SystemExit(f"error: {why}")
    size = int(os.environ.get("LMI_BENCH_MIB", "1024")) * MIB
    figures: list[Figure] = []
    details: dict[str, Any] = {"files": f"{COUNT} x {size // MIB} MiB", "samples": {}}
    with scratch_folder() as folder:
        for rate, name, aim in ((0, "", 3.0), (CAP, ", Hub capped at 60 MB/s a connection", 3.0)):
            with servers(count=COUNT, size=size, rate=rate) as remote:
                observed = _turns(remote, _ends(remote, folder), details, f"end to end{name}")
                figures += _against(f"Hub to S3{name}", observed["lmi"], observed["staged"], aim)
                figures += _memory(observed["lmi"], size) if rate == 0 else []
        figures += _cached(folder, size, details)
        figures += _second()
        figures += _uploads(folder, size, details)
    figures += _large(details)
    return Result(
        what="4 files from a Hub to S3, both stand-ins in Go over TLS on the loopback of the machine that is measured",
        figures=figures,
        versions={name: version(name) for name in ("lmi-deploy", "boto3", "huggingface_hub", "s5cmd")},
        details=details,
    )


def _work(name: str, folder: Path | str = "") -> list[str]:
    return [sys.executable, "-m", "benchmarks.transfer_work", name, str(folder)]


def _ends(remote: Servers, folder: Path) -> dict[str, Contender]:
    home = folder / "hf"
    sent = [_S5CMD, "cp", f"{home}/hub/models--org--model/snapshots/*", "s3://bench/weights/"]
    more = {**remote.environment, "HF_HOME": str(home)}
    return {
        "lmi": Contender([_work("lmi-stream")], {**more, "HF_HOME": str(folder / "none")}, folder / "none"),
        "staged": Contender([_work("snapshot"), sent], more, home),
    }


def _cached(folder: Path, size: int, details: dict[str, Any]) -> list[Figure]:
    """Into the Hub's cache on this disk: ours compares the hash of what came, snapshot_download its size."""
    home = folder / "hf"
    with servers(count=COUNT, size=size) as remote:
        more = {**remote.environment, "HF_HOME": str(home)}
        ways = {name: Contender([_work(name)], more, home) for name in ("lmi-fetch", "snapshot")}
        observed = _turns(remote, ways, details, "Hub to the cache")
    own = [one.seconds for one in observed["lmi-fetch"]]
    against = ratios(own, [one.seconds for one in observed["snapshot"]])
    text = f"{1 / median(against):.2f}x as fast"
    return [
        Figure.typical(f"Hub to the cache, {COUNT} x {size // MIB} MiB, verified", own),
        Figure.typical(
            "Hub to the cache, time against snapshot_download without Xet",
            against,
            "x",
            at_most=1.0,
            note=text,
        ),
    ]


def _turns(
    remote: Servers, contenders: Mapping[str, Contender], details: dict[str, Any], what: str
) -> dict[str, list[ProcessSample]]:
    """Each in turn, so that what else the machine does falls on all alike; every byte must have reached S3."""
    observed: dict[str, list[ProcessSample]] = {name: [] for name in contenders}
    staged = {}
    for turn in range(RUNS):
        for name, contender in contenders.items():
            remote.forget()
            found = watched(contender.commands, contender.more)
            stats = remote.stats()
            observed[name].append(found)
            staged[name] = _bytes_in(contender.staged)
            say(
                f"  {what}, {turn + 1} of {RUNS}: {name} {found.seconds:.2f} s, {found.cpu:.1f} s of CPU,"
                f" {found.memory_mb:.0f} MB, {stats['objects']} objects, {stats['bytes']} bytes"
            )
    details["samples"][what] = {
        name: {
            "seconds": [round(one.seconds, 3) for one in found],
            "memory_mb": [round(one.memory_mb) for one in found],
            "cpu_seconds": [round(one.cpu, 2) for one in found],
            "bytes_staged": staged[name],
        }
        for name, found in observed.items()
    }
    return observed


def _bytes_in(folder: Path | None) -> int:
    """What a contender left on the disk; taken away for the next turn."""
    if folder is None or not folder.exists():
        return 0
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    shutil.rmtree(folder)
    return size


def _against(
    what: str, own: Sequence[ProcessSample], other: Sequence[ProcessSample], aim: float
) -> list[Figure]:
    faster = ratios([one.seconds for one in own], [one.seconds for one in other])
    text = f"{1 / median(faster):.2f}x as fast as snapshot_download without Xet, then s5cmd; aim {aim:g}x"
    return [
        Figure.typical(f"{what}, streamed", [one.seconds for one in own]),
        Figure.typical(f"{what}, time against staged", faster, "x", at_most=round(1 / aim, 3), note=text),
    ]


def _memory(own: Sequence[ProcessSample], size: int) -> list[Figure]:
    memory = [one.memory_mb for one in own]
    what = f"Memory of the process tree, {COUNT} x {size // MIB} MiB streamed, 0 bytes staged"
    return [Figure.typical(what, memory, "MB", at_most=MEMORY_MB)]


def _second() -> list[Figure]:
    with servers(count=2, size=64 * MIB) as remote:
        for _ in range(2):
            before = remote.stats()
            watched([_work("lmi-stream")], remote.environment)
        after = remote.stats()
    moved = after["received"] - before["received"]
    calls = after["calls"] - before["calls"]
    return [
        Figure(what="Second push, S3 calls", value=calls, unit="", at_most=3),
        Figure(what="Second push, bytes sent", value=moved, unit="", at_most=0),
    ]


def _uploads(folder: Path, size: int, details: dict[str, Any]) -> list[Figure]:
    """From files on this disk, the large ones, then 2,000 small ones: each contender takes the sha256 of every byte.

    s5cmd signs it (and takes the MD5 too), boto3 and obstore have S3 verify it, ours is compared with the source's own
    before there is an object, and S3 verifies a CRC32."""
    figures = []
    for what, count, each, aim in (
        (f"{COUNT} x {size // MIB} MiB", COUNT, size, 0.95),
        ("2,000 x 128 KiB", 2000, 128 << 10, 1.3),
    ):
        source = _create_files(folder / "files", count, each)
        with servers(count=0, small=0) as remote:
            observed = _turns(remote, _senders(remote, source), details, f"upload of {what}")
        figures += _best(f"Upload of {what} from the cache", observed, aim)
        shutil.rmtree(folder / "files")
    return figures


def _create_files(folder: Path, count: int, size: int) -> Path:
    """Noise, a different stretch of it in each file; and beside the folder, what the Hub's cache knows: the hashes."""
    source = folder / "model"
    source.mkdir(parents=True)
    noise = random.Random(9).randbytes(min(size, 64 * MIB) + 4099 * 7)
    lines = []
    for number in range(count):
        begin, hasher, left = (number % 7) * 4099, hashlib.sha256(), size
        path = source / f"model-{number:05d}.safetensors"
        with path.open("wb") as file:
            while left:
                chunk = noise[begin : begin + min(left, size, 64 * MIB)]
                file.write(chunk)
                hasher.update(chunk)
                left -= len(chunk)
        lines.append(f"{hasher.hexdigest()} {size} {path.name}")
    (folder / "oids").write_text("\n".join(lines))
    return source


def _senders(remote: Servers, source: Path) -> dict[str, Contender]:
    more = {**remote.environment, "BENCH_OIDS": str(source.parent / "oids")}
    found = {
        "lmi": Contender([_work("lmi-cached", source)], more),
        "s5cmd": Contender([[_S5CMD, "cp", f"{source}/*", "s3://bench/weights/"]], more),
        "boto3": Contender([_work("boto3", source)], more),
    }
    if find_spec("obstore") is None:
        say("  without obstore: pip install obstore")
        return found
    return {**found, "obstore": Contender([_work("obstore", source)], more)}


def _best(what: str, observed: Mapping[str, Sequence[ProcessSample]], aim: float) -> list[Figure]:
    others = {name: median(one.seconds for one in found) for name, found in observed.items() if name != "lmi"}
    best = min(others, key=lambda name: others[name])
    own = [one.seconds for one in observed["lmi"]]
    against = ratios(own, [one.seconds for one in observed[best]])
    rest = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in sorted(others.items()))
    return [
        Figure.typical(f"{what}, verified", own, note=rest),
        Figure.typical(f"{what}, time against the best ({best})", against, "x", at_most=aim),
    ]


def _large(details: dict[str, Any]) -> list[Figure]:
    """40 GiB, once: memory must not know the difference."""
    gib = int(os.environ.get("LMI_BENCH_LARGE_GIB", "40"))
    with servers(count=1, size=gib << 30, small=0) as remote:
        observed = watched([_work("lmi-stream")], remote.environment)
        stats = remote.stats()
    details["samples"][f"{gib} GiB"] = {"seconds": round(observed.seconds, 1), "bytes": stats["bytes"]}
    what = f"Memory of the process tree, one file of {gib} GiB streamed, 0 bytes staged"
    return [
        Figure(what=what, value=observed.memory_mb, unit="MB", runs=[observed.memory_mb], at_most=MEMORY_MB)
    ]
