"""What a spec serves, as a record has it, and how that differs from the current generation."""

from __future__ import annotations

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.domain.in_place_weights import object_changes
from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.serving_record import AdditionalServing, LocalServing, SageMakerServing, ServingRecord

_IN_OTHER_FIELDS = frozenset({"engine", "option.model_id", "option.entryPoint"})
"""Properties that other fields of the record already represent."""
_MOST_OBJECTS = 5


def changes(current: Generation | None, desired: ServingRecord) -> tuple[Change, ...]:
    """Field by field; empty text means absent."""
    before, after = current.serving.summary if current else {}, desired.summary
    return tuple(
        Change(field=key, before=before.get(key, ""), after=after.get(key, ""))
        for key in {**after, **before}
        if before.get(key, "") != after.get(key, "")
    )


def in_place_changes(current: Generation | None, desired: ServingRecord) -> tuple[Change, ...]:
    """The objects under the same address that were replaced since they were deployed; at most 5 by name."""
    before, after = current.serving.in_place if current else None, desired.in_place
    if before is None or after is None or before.address != after.address:
        return ()
    found = [
        Change(
            field=f"object {change.path}",
            before=change.before.words if change.before else "",
            after=change.after.words if change.after else "",
        )
        for change in object_changes(before, after)
    ]
    more = len(found) - _MOST_OBJECTS
    rest = (Change(field="objects", before="", after=f"{more} more changed"),) if more > 0 else ()
    return (*found[:_MOST_OBJECTS], *rest)


def serving_record(
    spec: Spec,
    artifact: Artifact,
    place: LocalServing | SageMakerServing,
    *,
    weights_name: str = "",
    tags: Pairs = (),
) -> ServingRecord:
    return ServingRecord(
        model=spec.model.model_id,
        commit=spec.model.commit,
        engine=spec.engine.name,
        task=spec.model.task or "",
        handler=spec.engine.handler.entry_point,
        template=spec.engine.handler.template or "",
        tensor_parallel_degree=spec.engine.tensor_parallel_degree,
        weights=spec.weights.selection,
        weights_name=weights_name,
        artifact=artifact.digest[:10],
        place=place,
        probe=spec.probe,
        environment=tuple((name, value_digest(value)) for name, value in spec.place.environment),
        tags=tags,
        additional=tuple(
            AdditionalServing(
                role=each.role,
                name=each.name,
                model=each.model_id,
                commit=each.commit,
                weights_name=each.weights_name if weights_name or spec.weights.in_place else "",
            )
            for each in spec.weights.additional
        ),
        in_place=spec.weights.in_place,
        properties=tuple(pair for pair in spec.engine.properties if pair[0] not in _IN_OTHER_FIELDS),
    )
