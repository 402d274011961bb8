"""Maven Central, through jgo: DJL's Python engine by its coordinates."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from lmi_deploy.errors import IntegrityError, NotInstalled, TransferFailed, UsageRefused

GROUP, ARTIFACT = "ai.djl.python", "python"
SHA256 = {
    # Of the jar as Maven Central gave it on 2026-11-21 (217,842 bytes).
    "0.34.0": "15f36119dcce8921225a7e189c9766401f4cd29a66eef08578e8a3be5a5da6c0",
}


def engine_jar(version: str, *, environ: Mapping[str, str], scratch: Path) -> Path:
    """The verified jar: from the user's local Maven repository, else downloaded into `scratch`, where it may stay."""
    jar = _resolve(version, _local_repository(environ), scratch)
    return checked(jar, version)


def wheelhouse_jar(version: str, wheelhouse: Path) -> Path:
    """The checked jar out of a folder; nothing is fetched."""
    jar = wheelhouse / f"{ARTIFACT}-{version}.jar"
    if not jar.is_file():
        raise TransferFailed(
            f"{jar}: not there; LMI_WHEELHOUSE says that nothing is to be fetched",
            hint=f"put {GROUP}:{ARTIFACT}:{version} from Maven Central there under that name",
        )
    return checked(jar, version)


def checked(jar: Path, version: str) -> Path:
    """`jar`, if its hash is the pinned one."""
    if version not in SHA256:
        raise UsageRefused(
            f"DJL's Python engine {version}: no checksum of it is known here", hint=f"use {', '.join(SHA256)}"
        )
    with jar.open("rb") as handle:
        actual = hashlib.file_digest(handle, "sha256").hexdigest()
    if actual != SHA256[version]:
        raise IntegrityError(
            f"{jar}: sha256 is {actual}, expected {SHA256[version]} for {GROUP}:{ARTIFACT}:{version}",
            hint=f"remove {jar}, if it is still there, and run the same command again",
        )
    return jar


def _resolve(version: str, local: Path, scratch: Path) -> Path:
    try:
        from jgo.maven import MavenContext
    except ImportError as exc:
        raise NotInstalled("jgo") from exc
    # jgo writes in place: in the user's own repository a kill would leave an incomplete jar, so it is only read.
    context = MavenContext(repo_cache=scratch, local_repos=[local])
    try:
        return Path(context.project(GROUP, ARTIFACT).at_version(version).artifact().resolve())
    # RuntimeError is jgo's "not found"; the errors of its HTTP library are OSErrors.
    except (OSError, RuntimeError) as exc:
        raise TransferFailed(
            f"{GROUP}:{ARTIFACT}:{version}: could not be fetched from Maven Central",
            hint="see that Maven Central is reachable, or set LMI_WHEELHOUSE to a folder that holds "
            f"{ARTIFACT}-{version}.jar",
            details=[str(exc)],
        ) from exc


def _local_repository(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("M2_REPO") or "~/.m2/repository").expanduser()
