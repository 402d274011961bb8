"""The port ExternalUploader by obstore."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final

from lmi_deploy.aws.s3.uploaders.external_program import (
    OUT,
    ExternalProgram,
    OutputLine,
    UploadTarget,
    ca_bundle,
    credentials,
    explain_denied,
    failure,
    kept_certificates,
)
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import IntegrityError, LmiError, NotInstalled
from lmi_deploy.errors.install_command import install_command
from lmi_deploy.host.disk import FILE_CHANGES
from lmi_deploy.ports.external_uploader import UploadedFile, UploadItem

_PROGRAM: Final = "lmi_deploy.aws.s3.uploaders.obstore_worker"
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_SMALL: Final = MIB
_FEW: Final = 4
"""Simultaneous files if they are large: each may have several parts in memory."""


@dataclass(frozen=True, slots=True)
class Obstore:
    """Credentials go by its standard input. Every request states the bucket's expected owner, as ours do."""

    session: SessionFactory
    target: UploadTarget
    environ: Mapping[str, str]
    hashes: ClassVar = True

    @property
    def name(self) -> str:
        return f"obstore {metadata.version('obstore')}" if self.present else "obstore"

    @property
    def present(self) -> bool:
        return find_spec("obstore") is not None

    def upload_files(
        self, loads: Sequence[UploadItem], *, bucket: str
    ) -> Generator[UploadedFile | None, None, None]:
        if not self.present:
            raise NotInstalled("obstore", instead="; or set weights.engine: own")
        lines = [json.dumps(self._order(loads, bucket)), *(_line(load) for load in loads)]
        # -P: do not import modules from the current folder.
        argv = [sys.executable, "-P", "-m", _PROGRAM]
        outside = ExternalProgram(
            argv, kept_certificates(self.environ), "".join(f"{line}\n" for line in lines), _remedy()
        )
        failures: list[dict[str, Any]] = []
        with closing(outside.output()) as output:
            for line in output:
                yield _sent(line, failures)
        if outside.code or failures:
            raise _failure(failures, outside.code, len(loads))

    def _order(self, loads: Sequence[UploadItem], bucket: str) -> dict[str, Any]:
        session, keys = credentials(self.session)
        bundle = ca_bundle(self.environ, session)
        target = self.target
        small = max((load.size for load in loads), default=0) <= _SMALL
        return {
            "bucket": bucket,
            "endpoint": target.endpoint,
            "region": target.region,
            "owner": target.owner,
            "kms_key": target.kms_key,
            "retries": target.retries,
            "at_once": target.files_at_once if small else _FEW,
            "authorities": Path(bundle).read_text() if bundle and Path(bundle).is_file() else "",
            "keys": [keys.access_key, keys.secret_key, keys.token or ""],
        }


def _line(load: UploadItem) -> str:
    fields = {"key": load.key, "size": load.size, "part": load.part, "oid": load.oid, "kind": load.kind}
    return json.dumps({"path": str(load.path), **fields})


def _sent(line: OutputLine | None, failures: list[dict[str, Any]]) -> UploadedFile | None:
    if line is None:
        return None
    if line.stream != OUT:
        failures.append({"error": line.line.strip()})
        return None
    fields = json.loads(line.line)
    if "sha256" in fields:
        return UploadedFile(**fields)
    failures.append(fields)
    return None


def _failure(failures: Sequence[Mapping[str, Any]], code: int, count: int) -> LmiError:
    for problem in failures:
        if "got" in problem:
            return IntegrityError(
                f"{problem['path']}: has {problem['kind']} {problem['got']}, but its source has {problem['oid']}; "
                "not sent",
                hint=f"{FILE_CHANGES}; if it still differs, download it again",
            )
        line = str(problem["error"])
        if (refused := explain_denied("obstore", line, _CODE.findall(line))) is not None:
            return refused
    return failure("obstore", [str(one["error"]) for one in failures], code=code, count=count)


def _remedy() -> str:
    return f"run {install_command('obstore')}, or set weights.engine: own"
