"""Many deployments at once: from the lists of accounts and regions, whose requests grow by pages of 100.

A record is read only where it is asked for, and where the lists cannot tell what exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from lmi_deploy.domain.deployment_list import ListedDeployment, ListedDeployments
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import AccessError, LmiError, NoCredentials, Refused
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.status import Status, status

MOST_READ: Final = 20
"""Deployments that are read one by one without being asked for: some six requests each."""
AT_ONCE: Final = 8
"""Regions that are listed at the same time."""
DEFAULT: Final = "the default region"
_OWN: Final = ""
"""The profile of AWS's own chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """What to list. `regions`: of AWS; none: the default one, and those of the deployments that this machine knows.
    `profiles`: of AWS; none: that of AWS's own chain.
    """

    everywhere: bool = False
    """Those of other machines, too."""
    long: bool = False
    """Read each one's record and settings."""
    regions: tuple[str, ...] = ()
    all_regions: bool = False
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRow:
    """One deployment: its status, or what the lists say of it, or why neither is known."""

    ref: DeploymentRef
    profile: str = ""
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

    def require_complete(self) -> None:
        """The error, if every region failed of the same; else one that names those that failed."""
        if len({error.message for error in self.failed.values()}) == 1 and not self.listed_regions:
            raise next(iter(self.failed.values()))
        if self.failed:
            total = len(self.failed) + self.listed_regions
            raise AccessError(
                f"{len(self.failed)} of {total} regions could not be listed: {', '.join(self.failed)}",
                hint="fix the reasons above, or leave these regions or profiles out",
                details=[f"{place}: {error.message}" for place, error in self.failed.items()],
            )


@dataclass(frozen=True, slots=True)
class _Source:
    """A region, with the credentials of a profile. `region` empty: its default one."""

    profile: str
    region: str

    @property
    def words(self) -> str:
        return f"{self.profile} {self.region or DEFAULT}".strip()


@dataclass(frozen=True, slots=True)
class _Listing:
    source: _Source
    found: ListedDeployments

    @property
    def words(self) -> str:
        return f"{self.source.profile} {self.found.region}".strip()


def list_deployments(
    known: Sequence[DeploymentRef], scope: ListScope, deps: Dependencies, *, notify: Notify = ignore
) -> DeploymentRows:
    """Those that this machine knows first, in their order, then the others by name, region and account."""
    known = [ref for ref in known if ref.is_here or not scope.regions or ref.region in scope.regions]
    remote = [ref for ref in known if not ref.is_here]
    if not scope.everywhere and (scope.long or len(remote) <= MOST_READ):
        return DeploymentRows(rows=[_read(ref, deps, _OWN) for ref in known])
    return _Lister(scope, deps, notify).rows(known)


class _Lister:
    def __init__(self, scope: ListScope, deps: Dependencies, notify: Notify) -> None:
        self._scope = scope
        self._notify = notify
        self._deps = {profile: deps.for_profile(profile) for profile in scope.profiles} or {_OWN: deps}
        self._own = deps
        self._result = DeploymentRows()
        self._left = MOST_READ

    def rows(self, known: Sequence[DeploymentRef]) -> DeploymentRows:
        result = self._result
        regions = sorted({ref.region for ref in known if not ref.is_here} if not self._scope.regions else ())
        listings = self._listings(regions)
        result.listed_regions = len(listings)
        for listing in listings:
            if reason := listing.found.unlisted_reason:
                result.unlisted_reasons.append(f"{listing.words}: {reason}")
        by_place = {(each.found.region, each.found.account): each for each in reversed(listings)}
        listed = {_place(one.ref): one for each in listings for one in each.found.found}
        for ref in known:
            found = listed.pop(_place(ref), None) or ListedDeployment(ref=ref)
            result.rows.append(self._known(ref, found, by_place.get((ref.region, ref.account))))
        if self._scope.everywhere:
            more = (self._row(listed[place], by_place[place[1:]]) for place in sorted(listed))
            # The tag search still lists deleted resources for some minutes.
            result.rows += [row for row in more if row.status is None or row.status.standing != "absent"]
        return result

    def _known(self, ref: DeploymentRef, found: ListedDeployment, listing: _Listing | None) -> DeploymentRow:
        failure = self._result.failed.get(ref.region)
        if listing is not None:
            return self._row(found, listing)
        if failure is not None and not ref.is_here:
            return DeploymentRow(ref=ref, unknown_reason=failure.message)
        return _read(ref, self._own, _OWN)

    def _row(self, one: ListedDeployment, listing: _Listing) -> DeploymentRow:
        """Reads every deployment, or the few of which the lists know too little."""
        profile = listing.source.profile
        is_enough = bool(one.status) or bool(listing.found.unlisted_reason) or not self._left
        if is_enough and not self._scope.long:
            return DeploymentRow(ref=one.ref, profile=profile, listed=one)
        self._left -= not self._scope.long
        return _read(one.ref, self._deps[profile], profile)

    def _listings(self, regions: Sequence[str]) -> list[_Listing]:
        """Of each region once. The default region has its name only afterwards."""
        first = self._listed_at_once([*self._named()])
        seen = {each.found.region for each in first} | {*self._scope.regions}
        if self._scope.all_regions or not self._deps.keys() <= {_OWN}:
            return first
        return [*first, *self._listed_at_once([_Source(_OWN, one) for one in regions if one not in seen])]

    def _named(self) -> Iterator[_Source]:
        for profile in self._deps:
            regions = self._scope.regions or (("",) if self._scope.everywhere else ())
            if self._scope.all_regions:
                try:
                    regions = self._deps[profile].cloud("").account.regions()
                except LmiError as error:
                    self._result.failed[_Source(profile, "").words] = error
                    continue
            yield from (_Source(profile, region) for region in regions)

    def _listed_at_once(self, sources: Sequence[_Source]) -> list[_Listing]:
        if len(sources) > 1:
            self._notify(f"listing {counted(len(sources), 'region')} ...")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                results = [*pool.map(self._list, sources)]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        failed = {
            source.words: result
            for source, result in zip(sources, results, strict=True)
            if isinstance(result, LmiError)
        }
        self._result.failed |= failed
        return [result for result in results if isinstance(result, _Listing)]

    def _list(self, source: _Source) -> _Listing | LmiError:
        """A region that cannot be listed does not hide the others."""
        try:
            targets = self._deps[source.profile].targets.values()
            found = (target.list_all(source.region) for target in targets)
            return _Listing(source, next((each for each in found if each.region), ListedDeployments()))
        except LmiError as error:
            return error


def list_with_status(target: AnyTarget, region: str) -> ListedDeployments:
    """AccessError if the lists do not tell what runs."""
    listing = target.list_all(region)
    if listing.unlisted_reason:
        raise AccessError(listing.unlisted_reason, hint="allow it: `lmi iam RECIPE` prints the policy")
    return listing


def _read(ref: DeploymentRef, deps: Dependencies, profile: str) -> DeploymentRow:
    """A deployment that cannot be read now does not hide the others."""
    try:
        found = status(ref, deps)
    except (AccessError, Refused) as error:  # Refused: a newer lmi wrote its record
        return DeploymentRow(ref=ref, profile=profile, unknown_reason=error.message)
    return DeploymentRow(ref=found.ref, profile=profile, status=found)


def _place(ref: DeploymentRef) -> tuple[str, str, str]:
    return ref.name, ref.region, ref.account


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRegions:
    """What all other regions of the account know of a name."""

    found: tuple[DeploymentRef, ...] = ()
    looked_at: int = 0
    not_looked_at: tuple[str, ...] = ()
    """Regions that could not be listed, or why none could."""
    nearest: str = ""
    """An existing deployment whose name is almost the same."""

    @property
    def words(self) -> str:
        """Behind "NAME: not found in PLACE"."""
        looked = f", nor in {counted(self.looked_at, 'other region')}" if self.looked_at else ""
        left = f"; not looked at: {', '.join(self.not_looked_at)}" if self.not_looked_at else ""
        return looked + left + (f"; did you mean {self.nearest}?" if self.nearest else "")


def look_in_other_regions(
    ref: DeploymentRef, known: Sequence[DeploymentRef], deps: Dependencies
) -> OtherRegions:
    """Lists every region that the account has enabled. What this identity may not list is named, and no error."""
    if ref.is_here:
        left = () if is_aws_reachable(deps) else ("AWS (no credentials)",)
        return OtherRegions(not_looked_at=left, nearest=_nearest(ref.name, known))
    rows = list_deployments((), ListScope(everywhere=True, all_regions=True), deps)
    listed = [row.ref for row in rows.rows]
    return OtherRegions(
        found=tuple(one for one in listed if one.name == ref.name and one.region != ref.region),
        looked_at=max(0, rows.listed_regions - 1),
        not_looked_at=tuple(place for place in rows.failed if place != ref.region),
        nearest=_nearest(ref.name, [*known, *listed]),
    )


def is_aws_reachable(deps: Dependencies) -> bool:
    """Whether AWS can be queried: a machine without any credentials has only its local deployments.

    Refused credentials and a failed network are errors: a deployment that cannot be looked up is not absent.
    """
    try:
        return "sagemaker" in deps.targets and bool(deps.cloud("").caller.account)
    except NoCredentials:
        return False


def _nearest(name: str, refs: Sequence[DeploymentRef]) -> str:
    names = {one.name for one in refs} - {name}
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=0.75)), "")
