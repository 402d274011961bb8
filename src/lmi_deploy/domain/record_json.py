"""A deployment's record as text, and how each step of a journal changes it; storage is separate."""

from __future__ import annotations

import json
from dataclasses import replace

from lmi_deploy.domain.dataclass_json import dump, lines_text, load
from lmi_deploy.domain.environment_digests import action_fields
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import (
    AN_UP,
    KEPT_GENERATIONS,
    SCHEMA,
    Generation,
    Intent,
    Record,
    ServingChange,
    ServingPeriod,
)
from lmi_deploy.domain.record_schema_1 import read_schema_1
from lmi_deploy.domain.sagemaker.actions import (
    CreateEndpointConfig,
    CreateModel,
    DeleteEndpointConfig,
    DeleteModel,
)
from lmi_deploy.domain.serving_record import SageMakerServing
from lmi_deploy.errors import Refused


def record_text(record: Record) -> str:
    fields = {"schema": SCHEMA, **dump(record)}
    return lines_text({name: json.dumps(value) for name, value in fields.items()})


def parse_record(text: str | bytes, origin: str) -> Record:
    """ValueError if the text is not a record; Refused if a newer lmi wrote it."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(schema, int):
        raise ValueError("it has no schema version")
    if schema > SCHEMA:
        raise Refused(
            f"{origin}: written by a newer lmi (schema {schema}; this one reads up to {SCHEMA})",
            hint="use that version, or install a newer lmi (`lmi docs getting-started`)",
        )
    try:
        return read_schema_1(found) if schema == 1 else load(Record, found)
    except (TypeError, KeyError, AttributeError) as exc:
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc


def intended(record: Record, action: Action) -> Record:
    """An action is about to start."""
    return replace(record, intents=(*record.intents, _intent(action)))


def finished(record: Record, action: Action, outcome: str) -> Record:
    """The action finished; the same action, started before a crash, is kept once."""
    started = _intent(action)
    kept = [intent for intent in record.intents if intent != started]
    return replace(record, intents=(*kept, replace(started, outcome=outcome)))


def expected(record: Record, generation: Generation) -> Record:
    """A generation is now pending."""
    return replace(record, coming=generation)


def settled(record: Record, generation: Generation, change: ServingChange = AN_UP) -> Record:
    """A generation is now current; the intents end, except for created resources that belong to no generation."""
    others = [known for known in record.generations if known.server != generation.server]
    generations = (*others, generation)[-KEPT_GENERATIONS:]
    periods = (*record.periods, *((change.before,) if change.before else ()))
    begun = ServingPeriod.of(generation, change.kind, change.by)
    begun = begun if change.count is None else replace(begun, count=change.count)
    goes_on = False
    if periods and begun.since <= periods[-1].since:
        goes_on = begun.runs_as(periods[-1])
        begun = replace(begun, since=change.at or begun.since)
    return replace(
        record,
        generations=generations,
        intents=_abandoned(record, generations),
        coming=None,
        history=periods if goes_on else (*periods, begun),
    )


def accepted(record: Record, server: str) -> Record:
    """This generation met the objectives of a pipeline."""
    return replace(record, accepted=server)


def _abandoned(record: Record, generations: tuple[Generation, ...]) -> tuple[Intent, ...]:
    """Of configs and models, such as those of an instance type that was not to be had: the tag search may lag, and a
    teardown finds them here."""
    of_cloud = (g.serving for g in generations if isinstance(g.serving.place, SageMakerServing))
    models = {name for serving in of_cloud for name in serving.models}
    used = models | {generation.server for generation in generations}
    missing = {_subject(intent) for intent in record.started(DeleteModel, DeleteEndpointConfig)}
    created = record.started(CreateModel, CreateEndpointConfig)
    return tuple(intent for intent in created if _subject(intent) not in used | missing)


def _subject(intent: Intent) -> str:
    """The name of a config or model."""
    return str(intent.names.get("config") or intent.names.get("model") or "")


def _intent(action: Action) -> Intent:
    return Intent(action=action.kind, names=action_fields(action), outcome=None)
