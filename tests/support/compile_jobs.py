"""The machine of a compile job: its inputs from the bucket, its command as a process, its outputs to the bucket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings
from lmi_deploy.ports.object_store import ObjectStore

OPT_ML = "/opt/ml"


def run_processing(settings: JobSettings, store: ObjectStore, folder: Path) -> str | None:
    """Why it failed, as SageMaker says it; None if it succeeded. Outputs are uploaded in both cases."""

    def local(path: str) -> Path:
        return folder / path.removeprefix("/")

    for _, uri, place in settings.inputs:
        prefix = read_prefix(uri).path
        for one in store.list(prefix):
            path = local(place) / one.key.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(store.read(one.key)))
    message = local(f"{OPT_ML}/output/message")
    message.parent.mkdir(parents=True, exist_ok=True)
    words = [str(local(word)) if word.startswith(OPT_ML) else word for word in settings.command[1:]]
    ended = subprocess.run(
        [sys.executable, *words], env={"LMI_OPT_ML": str(local(OPT_ML))}, capture_output=True, check=False
    )
    for place, uri in settings.outputs:
        prefix = read_prefix(uri).path
        for path in sorted(one for one in local(place).rglob("*") if one.is_file()):
            store.put(prefix + path.relative_to(local(place)).as_posix(), path.read_bytes())
    if ended.returncode == 0:
        return None
    said = message.read_text() if message.exists() else ""
    return f"AlgorithmError: {said}, exit code: {ended.returncode}"
