"""A deployment that is not where it was looked for: is it in another region, or is its name mistyped?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.list_deployments import ListScope, list_deployments


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRegions:
    """What all other regions of the account know of a name."""

    found: tuple[DeploymentRef, ...] = ()
    looked_at: int = 0
    not_looked_at: tuple[str, ...] = ()
    """Regions that could not be listed; or what stands for all of them."""
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
        return OtherRegions(nearest=_nearest(ref.name, known))
    rows = list_deployments((), ListScope(everywhere=True, all_regions=True), deps)
    listed = [row.ref for row in rows.rows]
    return OtherRegions(
        found=tuple(one for one in listed if one.name == ref.name and one.region != ref.region),
        looked_at=max(0, rows.listed_regions - 1),
        not_looked_at=() if not rows.failed else tuple(place for place in rows.failed if place != ref.region),
        nearest=_nearest(ref.name, [*known, *listed]),
    )


def _nearest(name: str, refs: Sequence[DeploymentRef]) -> str:
    names = {one.name for one in refs} - {name}
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=0.75)), "")
