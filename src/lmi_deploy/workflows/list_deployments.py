"""Many deployments at once: from the lists of an account and region, whose requests grow by pages of 100.

A record is read only where it is asked for, and where the lists cannot tell what exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lmi_deploy.domain.deployment_list import ListedDeployment, ListedDeployments
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import AccessError, LmiError
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.status import Status, status

MOST_READ: Final = 20
"""Deployments that are read one by one without being asked for: some six requests each."""
DEFAULT: Final = "the default region"
Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """What to list. `regions`: of AWS; none: the default one, and those of the deployments that this machine knows."""

    everywhere: bool = False
    """Those of other machines, too."""
    long: bool = False
    """Read each one's record and settings."""
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRow:
    """One deployment: its status, or what the lists say of it, or why neither is known."""

    ref: DeploymentRef
    status: Status | None = None
    listed: ListedDeployment | None = None
    unknown_reason: str = ""


@dataclass(slots=True)
class DeploymentRows:
    rows: list[DeploymentRow] = field(default_factory=list)
    unlisted_reasons: list[str] = field(default_factory=list)
    """Why endpoints have no status, by region."""
    failed: dict[str, LmiError] = field(default_factory=dict)
    """Regions that could not be listed."""
    listed_regions: int = 0

    @property
    def from_lists(self) -> int:
        return sum(row.listed is not None for row in self.rows)


def list_deployments(known: Sequence[DeploymentRef], scope: ListScope, deps: Dependencies) -> DeploymentRows:
    """Those that this machine knows first, in their order, then the others by name and region."""
    known = [ref for ref in known if ref.is_here or not scope.regions or ref.region in scope.regions]
    remote = [ref for ref in known if not ref.is_here]
    if not scope.everywhere and (scope.long or len(remote) <= MOST_READ):
        return DeploymentRows(rows=[_read(ref, deps) for ref in known])
    result = DeploymentRows()
    listings = {each.region: each for each in _listings(remote, scope, deps, result.failed)}
    result.listed_regions = len(listings)
    result.unlisted_reasons = [
        f"{each.region}: {each.unlisted_reason}" for each in listings.values() if each.unlisted_reason
    ]
    chosen = _Chosen(deps, long=scope.long)
    listed = {_place(one.ref): one for listing in listings.values() for one in listing.found}
    for ref in known:
        found = listed.pop(_place(ref), None)
        listing = listings.get(ref.region)
        if ref.is_here:
            result.rows.append(_read(ref, deps))
        elif ref.region in result.failed:
            result.rows.append(DeploymentRow(ref=ref, unknown_reason=result.failed[ref.region].message))
        else:
            result.rows.append(chosen.row(found or ListedDeployment(ref=ref), listing))
    if scope.everywhere:
        more = (chosen.row(listed[place], listings[listed[place].ref.region]) for place in sorted(listed))
        # The tag search still lists deleted resources for some minutes.
        result.rows += [row for row in more if row.status is None or row.status.standing != "absent"]
    return result


def _listings(
    remote: Sequence[DeploymentRef],
    scope: ListScope,
    deps: Dependencies,
    failed: dict[str, LmiError],
) -> Iterator[ListedDeployments]:
    """Of each region once; the default region has its name only afterwards."""
    requested = scope.regions or (("",) if scope.everywhere else ())
    seen: set[str] = set()
    for region in (*requested, *sorted({ref.region for ref in remote} if not scope.regions else ())):
        if region in seen:
            continue
        seen.add(region)
        try:
            listing = _list_region(region, deps)
        except LmiError as error:
            failed[region or DEFAULT] = error
            continue
        seen.add(listing.region)
        yield listing


def _list_region(region: str, deps: Dependencies) -> ListedDeployments:
    return next(
        (each for target in deps.targets.values() if (each := target.list_all(region)).region),
        ListedDeployments(),
    )


@dataclass(slots=True)
class _Chosen:
    """Reads every deployment, or the few of which the lists know too little."""

    deps: Dependencies
    long: bool
    left: int = MOST_READ

    def row(self, one: ListedDeployment, listing: ListedDeployments | None) -> DeploymentRow:
        is_listed = bool(one.status) or bool(listing and listing.unlisted_reason)
        if self.long:
            return _read(one.ref, self.deps)
        if is_listed or not self.left:
            return DeploymentRow(ref=one.ref, listed=one)
        self.left -= 1
        return _read(one.ref, self.deps)


def _read(ref: DeploymentRef, deps: Dependencies) -> DeploymentRow:
    """A deployment that cannot be read now does not hide the others."""
    try:
        found = status(ref, deps)
    except AccessError as error:
        return DeploymentRow(ref=ref, unknown_reason=error.message)
    return DeploymentRow(ref=found.ref, status=found)


def _place(ref: DeploymentRef) -> Place:
    return ref.name, ref.region, ref.account


def require_listed(failed: dict[str, LmiError], listed: int) -> None:
    """The error of the only region; of several, one that names those that failed."""
    if len(failed) == 1 and not listed:
        raise next(iter(failed.values()))
    if failed:
        raise AccessError(
            f"{len(failed)} of {len(failed) + listed} regions could not be listed: {', '.join(failed)}",
            hint="fix the reasons above, or leave these regions out",
            details=[f"{region}: {error.message}" for region, error in failed.items()],
        )
