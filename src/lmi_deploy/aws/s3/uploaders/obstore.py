"""The port Carrier by obstore."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
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
from lmi_deploy.errors import IntegrityError, LmiError, NotInstalled
from lmi_deploy.ports.external_uploader import Load, Sent

_PROGRAM: Final = "lmi_deploy.aws.s3.uploaders.obstore_worker"
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_INSTALL: Final = "pip install 'lmi-deploy[obstore]'; or weights.engine: own"
_SMALL: Final = 1 << 20
_FEW: Final = 4
"""Files at once where they are large: each may hold several parts."""


class Obstore:
    """Credentials go by its standard input. Every request states the bucket's expected owner, as ours do."""

    hashes = True

    def __init__(self, session: SessionFactory, errand: Errand, environ: Mapping[str, str]) -> None:
        self._session = session
        self._errand = errand
        self._environ = environ

    @property
    def name(self) -> str:
        return f"obstore {metadata.version('obstore')}" if self.present else "obstore"

    @property
    def present(self) -> bool:
        return find_spec("obstore") is not None

    def carry(self, loads: Sequence[Load], *, bucket: str) -> Generator[Sent | None, None, None]:
        if not self.present:
            raise NotInstalled("obstore", instead="; or weights.engine: own")
        lines = [json.dumps(self._order(loads, bucket)), *(_line(load) for load in loads)]
        # -P: whatever lies in the folder that we are called in is not imported.
        argv = [sys.executable, "-P", "-m", _PROGRAM]
        outside = Outside(argv, kept(self._environ), "".join(f"{line}\n" for line in lines), _INSTALL)
        troubles: list[dict[str, Any]] = []
        with closing(outside.said()) as saying:
            for said in saying:
                yield _sent(said, troubles)
        if outside.code or troubles:
            raise _failure(troubles, outside.code, len(loads))

    def _order(self, loads: Sequence[Load], bucket: str) -> dict[str, Any]:
        session, keys = credentials(self._session)
        bundle = authorities(self._environ, session)
        errand = self._errand
        small = max((load.size for load in loads), default=0) <= _SMALL
        return {
            "bucket": bucket,
            "endpoint": errand.endpoint,
            "region": errand.region,
            "owner": errand.owner,
            "kms_key": errand.kms_key,
            "retries": errand.retries,
            "at_once": 2 * errand.files_at_once if small else _FEW,
            "authorities": Path(bundle).read_text() if bundle and Path(bundle).is_file() else "",
            "keys": [keys.access_key, keys.secret_key, keys.token or ""],
        }


def _line(load: Load) -> str:
    fields = {"key": load.key, "size": load.size, "part": load.part, "oid": load.oid, "kind": load.kind}
    return json.dumps({"path": str(load.path), **fields})


def _sent(said: Said | None, troubles: list[dict[str, Any]]) -> Sent | None:
    if said is None:
        return None
    if said.stream != OUT:
        troubles.append({"error": said.line.strip()})
        return None
    fields = json.loads(said.line)
    if "sha256" in fields:
        return Sent(**fields)
    troubles.append(fields)
    return None


def _failure(troubles: Sequence[Mapping[str, Any]], code: int, count: int) -> LmiError:
    for trouble in troubles:
        if "got" in trouble:
            return IntegrityError(
                f"{trouble['path']}: {trouble['kind']} {trouble['got']} is here, its source says {trouble['oid']}; not"
                " sent",
                hint="the file was changed, or is damaged: fetch it again",
            )
        line = str(trouble["error"])
        if (refused := refusal("obstore", line, _CODE.findall(line))) is not None:
            return refused
    return failure("obstore", [str(one["error"]) for one in troubles], code=code, count=count)
