"""The alarms of an endpoint follow the recipe: it is compared with what is registered, and with what the last `lmi up`
set.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.alarm_actions import RemoveAlarms, SetAlarms
from lmi_deploy.domain.sagemaker.alarm_settings import EndpointAlarms


def alarm_actions(
    spec: Spec, observed: CloudObserved, *, created: bool
) -> Iterator[SetAlarms | RemoveAlarms]:
    """Once the endpoint serves. `created`: what an endpoint of this name had before is not known."""
    desired, interrupted = spec.cloud.alarms, _was_interrupted(observed.record)
    if desired is not None and (created or interrupted or _is_changed(observed, desired)):
        yield SetAlarms(endpoint=spec.name, alarms=desired)
    elif desired is None and may_have_alarms(observed):
        yield RemoveAlarms(endpoint=spec.name)


def remove_alarms(observed: CloudObserved) -> Iterator[RemoveAlarms]:
    """With the endpoint."""
    if may_have_alarms(observed) and not observed.not_owned_reason:
        yield RemoveAlarms(endpoint=observed.ref.name)


def may_have_alarms(observed: CloudObserved) -> bool:
    if observed.alarms_read:
        return observed.alarms is not None
    tagged = any(resource.kind == "alarm" for resource in observed.resources)
    return tagged or recorded_alarms(observed) is not None or _was_interrupted(observed.record)


def is_recorded_with_alarms(record: Record | None) -> bool:
    """Whether some may exist, as far as the record says."""
    current = record.current if record else None
    return bool(current and current.serving.cloud.alarms) or _was_interrupted(record)


def recorded_alarms(observed: CloudObserved) -> EndpointAlarms | None:
    """As the last `lmi up` set them."""
    current = observed.record.current if observed.record else None
    return current.serving.cloud.alarms if current else None


def alarm_changes(
    changes: tuple[Change, ...], observed: CloudObserved, desired: EndpointAlarms | None
) -> tuple[Change, ...]:
    """With what is registered instead of what is recorded, field by field."""
    if not observed.alarms_read or not observed.serving:
        return changes
    before = observed.alarms.settings.summary if observed.alarms else {}
    after = desired.summary if desired else {}
    others = tuple(change for change in changes if change.field.partition(".")[0] != "alarms")
    return (
        *others,
        *(
            Change(field=key, before=before.get(key, ""), after=after.get(key, ""))
            for key in dict.fromkeys((*after, *before))
            if before.get(key, "") != after.get(key, "")
        ),
    )


def alarm_drift_words(observed: CloudObserved) -> str:
    """What is registered instead of what the last `lmi up` set, as a sentence; empty if they agree."""
    recorded = recorded_alarms(observed)
    if recorded is None or not observed.alarms_read or not _differs(observed, recorded):
        return ""
    if observed.alarms is None:
        return "its alarms were deleted, not by lmi; `lmi up` creates them again"
    if disabled := [kind for kind, state in observed.alarms.states if state == "disabled"]:
        return f"its alarms are disabled, and not by lmi: {', '.join(disabled)}; `lmi up` enables them"
    words = "; ".join(
        f"{each.field}: {each.before or 'none'} instead of {each.after or 'none'}"
        for each in alarm_changes((), observed, recorded)
    )
    return f"its alarms were changed, not by lmi ({words}); `lmi up` sets them again"


def _is_changed(observed: CloudObserved, desired: EndpointAlarms) -> bool:
    return recorded_alarms(observed) != desired or (observed.alarms_read and _differs(observed, desired))


def _differs(observed: CloudObserved, desired: EndpointAlarms) -> bool:
    found = observed.alarms
    if found is None or any(state == "disabled" for _, state in found.states):
        return True
    return found.settings != desired


def _was_interrupted(record: Record | None) -> bool:
    return record is not None and any(record.started(SetAlarms, RemoveAlarms))
