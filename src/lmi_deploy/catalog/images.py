"""The serving images that AWS publishes: repository and tag by family and version, account by region."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("images.json").read_text(encoding="ascii"))
    return table


def source() -> tuple[str, str]:
    """Where the table comes from, and its date."""
    return _table()["source"], _table()["date"]


def families() -> tuple[str, ...]:
    return tuple(_table()["families"])


def versions(family: str) -> tuple[str, ...]:
    """The versions of a family, newest first; `latest` is not always the first of them."""
    return tuple(_table()["families"][family]["versions"])


def latest(family: str) -> str:
    version: str = _table()["families"][family]["latest"]
    return version


@cache
def accounts(region: str) -> frozenset[str]:
    """The accounts from which AWS's own serving images come in a region; empty for an unknown region."""
    return frozenset(held[region] for held in _table()["registries"].values() if region in held)


@cache
def tags(repository: str) -> frozenset[str]:
    """Every tag of a repository that the table knows; empty where it does not know the repository."""
    return frozenset(
        tag
        for family in _table()["families"].values()
        for entry in family["versions"].values()
        if entry["repository"] == repository
        for tag in entry["tags"].values()
    )


def uri(family: str, version: str, region: str, *, device: str = "gpu") -> str | None:
    """The image's address in a region; None where AWS does not publish it there or for that device."""
    entry = _table()["families"].get(family, {}).get("versions", {}).get(version)
    if entry is None or device not in entry["tags"]:
        return None
    account = _table()["registries"][entry["registries"]].get(region)
    if account is None:
        return None
    return f"{account}.dkr.ecr.{region}.{_suffix(region)}/{entry['repository']}:{entry['tags'][device]}"


def _suffix(region: str) -> str:
    suffixes = {"cn-": "amazonaws.com.cn", "us-iso-": "c2s.ic.gov", "us-isob-": "sc2s.sgov.gov"}
    more = {"us-isof-": "csp.hci.ic.gov", "eu-isoe-": "cloud.adc-e.uk", "eusc-": "amazonaws.eu"}
    return next(
        (name for start, name in (suffixes | more).items() if region.startswith(start)), "amazonaws.com"
    )
