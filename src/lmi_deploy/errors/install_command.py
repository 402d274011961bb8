"""The command that adds an extra to this installation of lmi, which may come from a folder, a wheel or a Git server."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit

_PACKAGE: Final = "lmi-deploy"


def install_command(extra: str = "") -> str:
    """For this Python, from where lmi itself was installed; by its name if that is not known. It adds the extra, or,
    without one, the packages that lmi always needs, in the versions that it needs.
    """
    upgrade = "" if extra else " --upgrade"
    return f"{quote(sys.executable)} -m pip install{upgrade} {_requirement(_direct_url(), extra)}"


def _direct_url() -> str | None:
    """What the installer wrote about the source (PEP 610); None if it was a package index."""
    try:
        return metadata.distribution(_PACKAGE).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None


def _requirement(direct_url: str | None, extra: str) -> str:
    extras = f"[{extra}]" if extra else ""
    if direct_url is None:
        return quote(f"{_PACKAGE}{extras}")
    source = json.loads(direct_url)
    url = source["url"]
    if "dir_info" in source:
        folder = quote(f"{unquote(urlsplit(url).path)}{extras}")
        return f"-e {folder}" if source["dir_info"].get("editable") else folder
    version = source.get("vcs_info")
    address = f"{version['vcs']}+{url}@{version['commit_id']}" if version else url
    return quote(f"{_PACKAGE}{extras} @ {address}")
