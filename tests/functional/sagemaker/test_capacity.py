"""`lmi capacity`: quota, offer, image and price of a recipe's instance types, by region."""

from __future__ import annotations

import io

import pytest

from lmi_deploy.cli.commands.capacity import show_rows
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.quotas import ServiceQuota
from lmi_deploy.ui.text_view import HumanView
from lmi_deploy.workflows.capacity import InstanceCapacity
from tests.support.cloud_app import CloudApp, write_recipe


def rows(app: CloudApp, *argv: str) -> dict[tuple[str, str], dict[str, object]]:
    result = app.lmi("capacity", *argv, "--json")
    assert result.code == 0, result.out + result.err
    return {(line["region"], line["instance"]): line for line in result.lines if line["event"] == "row"}


def test_quota_price_and_offer_of_each_type(app: CloudApp) -> None:
    app.cloud.account_state.quotas["ml.g6.xlarge"] = 0.0
    found = rows(app)
    assert found.keys() == {("us-east-1", "ml.g5.xlarge"), ("us-east-1", "ml.g6.xlarge")}
    first = found["us-east-1", "ml.g5.xlarge"]
    assert (first["verdict"], first["quota"], first["needed"], first["usd_per_hour"]) == (
        "possible",
        100,
        1,
        1.408,
    )
    second = found["us-east-1", "ml.g6.xlarge"]
    assert (second["verdict"], second["reason"]) == ("no", "the quota is 0, the recipe may use 1")
    shown = app.lmi("capacity")
    assert "1 of 2 placements possible; no API of AWS shows whether instances are free now" in shown.err
    assert "--quota-code L-12345678 --desired-value 1 --region us-east-1" in shown.err


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [80, 160])
def test_narrow_terminal_has_the_reasons_below_the_table(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    found = [
        InstanceCapacity(
            region=region,
            instance="ml.g6e.4xlarge",
            verdict="no",
            reason="the quota is 100, the recipe may use 120",
            offered="yes",
            quota=100.0,
            quota_code="L-5DD18543",
            needed=120,
            price=None,
        )
        for region in ("us-east-1", "ap-southeast-2")
    ]
    out, story = Screen(), Screen()
    show_rows(found, HumanView(out, story, live=False))
    assert max(map(len, [*out.getvalue().splitlines(), *story.getvalue().splitlines()])) <= columns
    assert out.getvalue().count(found[0].reason) == (0 if columns == 80 else 2)
    assert " ".join(story.getvalue().split()) == (
        f"{found[0].reason}: ml.g6e.4xlarge in us-east-1, ml.g6e.4xlarge in ap-southeast-2"
        if columns == 80
        else ""
    )


def test_autoscaling_needs_its_maximum(app: CloudApp) -> None:
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 3.0
    scaling = "endpoint.autoscaling={min: 1, max: 4, invocations_per_instance: 60}"
    row = rows(app, "--set", scaling)["us-east-1", "ml.g5.xlarge"]
    assert (row["verdict"], row["reason"]) == ("no", "the quota is 3, the recipe may use 4")


def test_type_that_the_region_does_not_offer(app: CloudApp) -> None:
    app.cloud.limits.missing.add("ml.g5.xlarge")
    row = rows(app)["us-east-1", "ml.g5.xlarge"]
    assert (row["verdict"], row["offered"]) == ("no", "no")


def test_quotas_that_may_not_be_read_are_unknown_and_said(app: CloudApp) -> None:
    def refused(instance: str) -> ServiceQuota | None:
        raise AccessError("not authorized to perform servicequotas:ListServiceQuotas", hint="ask")

    app.cloud.limits.endpoint_instances = refused  # type: ignore[method-assign]
    result = app.lmi("capacity", "--json")
    assert result.code == 0
    verdicts = {line["instance"]: line["verdict"] for line in result.lines if line["event"] == "row"}
    assert verdicts == {"ml.g5.xlarge": "unknown", "ml.g6.xlarge": "unknown"}
    assert "servicequotas:ListServiceQuotas" in result.result["unread"]["us-east-1"]
    assert "us-east-1: the quotas could not be read" in app.lmi("capacity").err


def test_image_of_another_region_is_a_reason(app: CloudApp) -> None:
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/mine:1"
    row = rows(app, "--set", f"container.image={image}")["us-east-1", "ml.g5.xlarge"]
    assert (row["verdict"], row["reason"]) == ("no", "container.image is in eu-west-1")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--region", "us-esat-1"), "us-esat-1: no such AWS region"),
        (("--region", "us-east-1", "--all-regions"), "both name regions"),
        (("--set", "instance_type=auto"), "instance_type: auto; capacity is looked up for named types"),
        (("--set", "endpoint.target=local", "--set", "instance_type=[]"), "local has no instance types"),
    ],
)
def test_bad_arguments_are_refused(app: CloudApp, argv: tuple[str, ...], words: str) -> None:
    result = app.lmi("capacity", *argv)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_all_regions_are_those_of_the_account(app: CloudApp) -> None:
    write_recipe()
    assert {region for region, _ in rows(app, "--all-regions")} == {"us-east-1"}
