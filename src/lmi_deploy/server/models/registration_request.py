"""Parse POST /models: the folder, the name, and the settings that override the model's own; names of models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_responses import ErrorReply, parse_integer
from lmi_deploy.server.http.request_head_parser import ReceivedRequest

_NUMBERS = {
    "batch_size": "batch_size",
    "job_queue_size": "job_queue_size",
    "max_batch_delay": "max_batch_delay",
    "max_idle_time": "max_idle_time",
    "min_worker": "minWorkers",
    "max_worker": "maxWorkers",
}
_TEXTS = {"engine": "engine", "device": "load_on_devices"}
_NO_WORD = re.compile(r"\W|^_")
_ARCHIVE = re.compile(r"\.(tar\.gz|tar\.bz2|tar\.z|tgz|[^.]*)$", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NULL_URL = 'Cannot invoke "String.startsWith(String)" because "<parameter1>" is null'


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a registration overrides in the model's own file; not passed to the handler."""

    version: str | None = None
    url: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One call of POST /models."""

    url: str
    name: str
    synchronous: bool
    over: Overrides

    @property
    def version(self) -> str | None:
        return self.over.version

    @property
    def scheme(self) -> str:
        found = _SCHEME.match(self.url)
        return found[1].lower() if found else ""

    @property
    def folder(self) -> Path:
        return Path(self.url.removeprefix("file://").removeprefix("file:"))


def read_registration(request: ReceivedRequest, query: Mapping[str, str]) -> Registration:
    """From a JSON body, or else from the query; never from both. `ErrorReply` for what the real server refuses."""
    kind = (request.header("content-type") or "").split(";")[0].strip().lower()
    requested = _body(request.body) if kind == "application/json" else dict(query)
    if "url" not in requested and kind == "application/json":
        raise ErrorReply(500, "NullPointerException", _NULL_URL)
    if "url" not in requested:
        raise error_responses.bad_request("Parameter url is required.")
    stated = {
        key: parse_integer(requested[name], 409) for name, key in _NUMBERS.items() if requested.get(name)
    }
    keys = {key: str(number) for key, number in stated.items() if number >= 0}
    keys |= {key: requested[name] for name, key in _TEXTS.items() if requested.get(name)}
    return Registration(
        url=requested["url"],
        name=requested.get("model_name") or name_in(requested["url"]),
        synchronous=requested.get("synchronous", "true").lower() == "true",
        over=Overrides(version=requested.get("model_version"), url=requested["url"], keys=keys),
    )


def name_of(folder: Path) -> str:
    return _NO_WORD.sub("_", folder.name)


def name_in(url: str) -> str:
    """The last part of its path, without an archive's ending, in letters, digits and underlines."""
    path = url.partition(":")[2] or url
    last = path.rstrip("/").rpartition("/")[2]
    return _NO_WORD.sub("_", last if path.endswith("/") else _ARCHIVE.sub("", last))


def _body(raw: bytes) -> dict[str, str]:
    try:
        output = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise ErrorReply(500, "JsonSyntaxException", str(exc)) from exc
    if not isinstance(output, dict):
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in output.items()}
