"""Records are read back as they were written, and so are those of the earlier schema.

`records/` has records that lmi wrote with schema 1, with the plans and output of that version for each.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.observed_state import CloudObserved, LocalObserved, ObservedServer
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.record import SCHEMA, DeploymentRef, Generation, Record
from lmi_deploy.domain.record_json import parse_record, record_text
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG_SPEC,
    TAG_WEIGHTS,
    ObservedEndpoint,
    Placement,
    Resource,
)
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import Refused
from lmi_deploy.targets.local import plan as local_plan
from lmi_deploy.targets.sagemaker.plan.rollback import earlier, rollback
from lmi_deploy.targets.sagemaker.plan.wait import wait_plan
from lmi_deploy.ui.json_view import plan_fields
from tests.support.factories import LOCAL, SAGEMAKER, serving
from tests.support.old_records import schema_1_text

HERE = Path(__file__).parent / "records"
OLD = sorted(path.stem for path in HERE.glob("*.json") if ".expected" not in path.name)
CLOUD = [name for name in OLD if name.startswith("sagemaker")]
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6)
PAIRS = st.dictionaries(WORDS, st.text(max_size=5), max_size=3)
PLACES = st.one_of(
    st.builds(replace, st.just(LOCAL), image=st.just("") | WORDS, wait_timeout=st.integers(0, 9)),
    st.builds(
        replace,
        st.just(SAGEMAKER),
        placements=st.lists(
            st.builds(Placement, instance=WORDS, volume_gb=st.integers(0, 3), host_ami=st.just("") | WORDS),
            unique_by=lambda placement: placement.instance,
        ).map(tuple),
        count=st.integers(1, 9),
        kms_key=st.just("") | WORDS,
        network_isolation=st.booleans(),
        vpc=st.none() | st.builds(Vpc, subnets=st.tuples(WORDS, WORDS), security_groups=st.tuples(WORDS)),
        scaling=st.none()
        | st.builds(
            Scaling, least=st.integers(0, 9), most=st.integers(0, 99), invocations=st.integers(1, 99)
        ),
    ),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    place = draw(PLACES)
    target = "local" if isinstance(place, type(LOCAL)) else "sagemaker"
    said = serving(
        place,
        task=draw(st.just("") | WORDS),
        probe=draw(
            st.none() | st.builds(ProbeSpec, prompt=WORDS, body=WORDS, content_type=WORDS, expect=st.text())
        ),
        environment=tuple((name, value_digest(text)) for name, text in draw(PAIRS).items()),
        tags=tuple(draw(PAIRS).items()) if target == "sagemaker" else (),
        properties=tuple((f"option.{key}", value) for key, value in draw(PAIRS).items()),
        weights_name=draw(WORDS) if target == "sagemaker" else "",
    )
    generation = Generation(
        server="s", spec="", artifact="", runtime="r", host="h", port=1, serving=said, since="", took=3
    )
    ref = DeploymentRef(name="m", target=target)  # type: ignore[arg-type]
    return Record(ref=ref, generations=(generation,), coming=draw(st.none() | st.just(generation)))


@given(records())
def test_record_text_is_read_back_equal(record: Record) -> None:
    assert parse_record(record_text(record), "") == record


@given(records())
def test_record_of_schema_1_is_read_completely(record: Record) -> None:
    assert parse_record(schema_1_text(record), "") == record


def old_record(name: str) -> Record:
    return parse_record((HERE / f"{name}.json").read_text(), name)


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.expected.json").read_text())
    return found


def in_service(record: Record) -> CloudObserved:
    """The endpoint with the current config, and all resources in the record."""
    assert record.current
    current, pending = record.current, record.coming
    tags = ((TAG_SPEC, current.spec), (TAG_WEIGHTS, current.serving.weights_name), *current.serving.tags)
    resources = [Resource(kind="endpoint", name="tiny", arn="", tags=tags)]
    for generation in record.known:
        model = generation.serving.cloud.model
        resources.append(Resource(kind="endpoint-config", name=generation.server, arn="", tags=()))
        resources.append(Resource(kind="model", name=model, arn="", tags=()))
    endpoint = ObservedEndpoint(
        name="tiny",
        arn="",
        status="Updating" if pending else "InService",
        config=current.server,
        pending=pending.server if pending else "",
    )
    return CloudObserved(ref=record.ref, record=record, endpoint=endpoint, resources=tuple(resources))


def planned(plan: Plan, to: Generation | None) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(plan_fields(plan, Estimate())))
    for action in fields["actions"]:
        del action["title"], action["key"]
    return {"to": to.server if to else None, "actions": fields["actions"], "changes": fields["changes"]}


@pytest.mark.parametrize("name", OLD)
def test_old_record_shows_the_same_summary(name: str) -> None:
    record = old_record(name)
    assert record.current
    assert [*record.current.serving.summary.items()] == [*expected(name)["summary"].items()]


@pytest.mark.parametrize("name", OLD)
def test_old_record_is_written_with_the_current_schema(name: str) -> None:
    text = record_text(old_record(name))
    assert json.loads(text)["schema"] == SCHEMA
    assert parse_record(text, name) == old_record(name)


@pytest.mark.parametrize("name", CLOUD)
def test_rollback_plan_of_an_old_record_is_unchanged(name: str) -> None:
    observed = in_service(old_record(name))
    plans = {
        f"rollback {number}": rollback(observed, number) for number in range(1, len(earlier(observed)) + 1)
    }
    wanted = {key: value for key, value in expected(name).items() if key.startswith("rollback")}
    assert {key: planned(plan, to) for key, (plan, to) in plans.items()} == wanted


@pytest.mark.parametrize("name", CLOUD)
def test_wait_plan_of_an_old_record_is_unchanged(name: str) -> None:
    plan, to = wait_plan(in_service(old_record(name)), timeout=None)
    assert planned(plan, to) == expected(name)["wait"]


def test_wait_plan_of_an_old_local_record_is_unchanged() -> None:
    record = old_record("local-pending")
    assert record.current
    assert record.coming
    servers = (
        ObservedServer(server=record.current.server, phase="ready", pid=1, port=record.current.port),
        ObservedServer(server=record.coming.server, phase="ready", pid=2, port=9999),
    )
    observed = LocalObserved(
        ref=record.ref,
        exists=True,
        record=record,
        servers=servers,
        artifacts=tuple(generation.artifact for generation in record.known[-2:]),
        serving=record.current.server,
    )
    assert planned(*local_plan.wait_plan(observed, timeout=None)) == expected("local-pending")["wait"]


def test_scaling_tags_and_settings_of_an_old_record_are_read() -> None:
    current = old_record("sagemaker-generations").generations[1].serving
    assert current.cloud.scaling == Scaling(least=1, most=4, invocations=60)
    assert current.tags == (("team", "search"), ("cost", "a=b"))
    assert current.cloud.vpc is not None
    assert current.cloud.vpc.subnets == ("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
    assert (current.cloud.count, current.cloud.wait_timeout) == (1, 3300)
    assert current.probe is not None
    assert current.probe.expect == "OK"
    plain, volumes = old_record("sagemaker-instances").generations
    assert plain.serving.cloud.scaling is None
    assert [(p.instance, p.volume_gb) for p in volumes.serving.cloud.placements] == [
        ("ml.m5.xlarge", 77),
        ("ml.c5.xlarge", 77),
    ]


def test_environment_values_of_an_old_record_become_digests() -> None:
    text = (HERE / "sagemaker-generations.json").read_text()
    digest = value_digest("canary-1")
    assert digest in text
    record = parse_record(text.replace(digest, "canary-1"), "")
    assert record == old_record("sagemaker-generations")
    assert "canary" not in record_text(record)


def test_record_of_a_newer_lmi_is_refused() -> None:
    text = json.dumps({"schema": SCHEMA + 1, **dump(old_record("local-generations"))})
    with pytest.raises(Refused, match=rf"written by a newer lmi \(schema {SCHEMA + 1}"):
        parse_record(text, "record.json")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"schema": 1}', '{"schema": 2}', '{"schema": 0}', '{"schema": 1, "generations": [{}]}'],
)
def test_invalid_form_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_record(text, "record.json")
