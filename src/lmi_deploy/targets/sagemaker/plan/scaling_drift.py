"""How the registered autoscaling differs from the recipe's and from the recorded one."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling, differs

_FIELD: Final = "scaling"


def recorded_scaling(observed: CloudObserved) -> Scaling | None:
    """As the last `lmi up` set it."""
    current = observed.record.current if observed.record else None
    return current.serving.cloud.scaling if current else None


def scaled_copies(generation: Generation | None) -> int:
    """The copies by which a generation is recorded, if autoscaling sets another number; else 0."""
    serving = generation.serving.cloud if generation else None
    if serving is None or serving.component is None or serving.scaling is None:
        return 0
    return serving.component.place.copies


def is_scaling_changed(observed: CloudObserved, desired: Scaling) -> bool:
    """Whether it must be set: another one is registered, or the recipe has changed since it was."""
    live, recorded = observed.scaling, recorded_scaling(observed)
    if not observed.scaling_read:
        return recorded != desired
    return recorded != desired or differs(live, desired)


def scaling_changes(
    changes: tuple[Change, ...], observed: CloudObserved, desired: Scaling | None, kind: ScalableKind
) -> tuple[Change, ...]:
    """With what is registered instead of what is recorded, field by field."""
    if not observed.scaling_read or not observed.serving or not differs(observed.scaling, desired):
        return changes
    others = tuple(change for change in changes if not _is_scaling(change.field))
    before = observed.scaling.summary_of(kind) if observed.scaling else {}
    after = desired.summary_of(kind) if desired else {}
    return (
        *others,
        *(
            Change(field=key, before=before.get(key, ""), after=after.get(key, ""))
            for key in dict.fromkeys((*after, *before))
            if before.get(key, "") != after.get(key, "")
        ),
    )


def scaling_drift_words(observed: CloudObserved) -> str:
    """What is registered instead of what the last `lmi up` set, as a sentence; empty if they agree."""
    recorded = recorded_scaling(observed)
    if recorded is None or not observed.scaling_read or not differs(observed.scaling, recorded):
        return ""
    if observed.scaling is None:
        return "its autoscaling was removed, not by lmi; `lmi up` registers it again"
    changed = scaling_changes((), observed, recorded, observed.scalable_kind)
    words = "; ".join(
        f"{each.field}: {each.before or 'none'} instead of {each.after or 'none'}" for each in changed
    )
    return f"its autoscaling was changed, not by lmi ({words}); `lmi up` sets it again"


def _is_scaling(field: str) -> bool:
    return field == _FIELD or field.startswith(f"{_FIELD}.")
