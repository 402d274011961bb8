"""Preflight: all problems are reported together before anything is created, and only when something will be
created."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cloud_app import CloudApp, write_recipe

PLAIN = "name: tiny\nmodel_id: org/tiny\nengine: accelerate\ninstance_type: ml.g5.xlarge\n"
ROLE = "arn:aws:iam::111122223333:role/lmi-endpoint"


def test_version_and_candidate_of_one_type_need_its_quota_together(app: CloudApp) -> None:
    shadow = "endpoint: {candidate: {set: {options.dtype: fp32}, shadow_percent: 50, count: 2}}\n"
    write_recipe(PLAIN + "endpoint: {count: 2}\n")
    app.up()
    write_recipe(PLAIN + shadow.replace("{candidate", "{count: 2, candidate"))
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 3.0
    refused = app.lmi("up", "--yes")
    assert (refused.code, 'endpoint usage" in us-east-1 is 3' in refused.err) == (1, True), refused.err
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 6.0  # while the fleet is replaced, both are counted
    assert app.lmi("up", "--yes").code == 0


def test_all_problems_are_reported_together(app: CloudApp) -> None:
    write_recipe(PLAIN)
    app.cloud.roles.distrusting[ROLE] = "its trust policy does not let SageMaker assume it"
    app.cloud.roles.denied.add("sagemaker:CreateModel")
    app.cloud.account_state.quotas["ml.g5.xlarge"] = 0.0
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "3 problems; nothing was created" in result.err
    assert "does not let SageMaker assume it" in result.err
    assert "may not sagemaker:CreateModel on arn:" in result.err
    assert 'the quota "ml.g5.xlarge for endpoint usage" in us-east-1 is 0' in result.err
    assert "--quota-code L-12345678 --desired-value 1" in result.err
    assert app.cloud_resources() == []
    assert app.cloud.account.buckets == {}


def test_plan_is_shown_before_what_forbids_up(app: CloudApp) -> None:
    app.cloud.roles.absent.add(ROLE)
    result = app.lmi("plan", "--out", "plan.json", "--exit-code")
    assert result.code == 1
    assert "tiny: 8 actions" in result.out
    assert "cost: $1.41 an hour" in result.out
    assert not Path("plan.json").exists()
    *_, plan, end = map(json.loads, app.lmi("plan", "--json").out.splitlines())
    assert (plan["event"], len(plan["actions"]), end["ok"], end["error"]["exit_code"]) == (
        "plan",
        8,
        False,
        1,
    )
    limited = app.lmi("plan", "--max-hourly", "1", "--set", "endpoint.role=mine")
    assert (limited.code, "cost: $1.41 an hour" in limited.out, "--max-hourly 1:" in limited.err) == (
        5,
        True,
        True,
    )


def test_missing_role_is_reported(app: CloudApp) -> None:
    app.cloud.roles.absent.add(ROLE)
    result = app.lmi("up", "--yes")
    assert (result.code, app.cloud.account.buckets) == (1, {})
    assert "not found in the account" in result.err
    assert "`lmi iam tiny.yaml`" in result.err
    assert "`lmi bootstrap tiny.yaml`" in result.err


def test_remedy_that_several_roles_share_is_said_once(app: CloudApp) -> None:
    write_recipe(f"{PLAIN}weights: {{via: job}}\n")
    app.cloud.roles.absent |= {ROLE, ROLE.replace("endpoint", "transfer-job")}
    result = app.lmi("plan")
    assert (result.code, result.err.count("`lmi bootstrap tiny.yaml`")) == (1, 1), result.err


def test_hint_repeats_overlay_and_overrides(app: CloudApp) -> None:
    app.cloud.roles.absent.add(ROLE)
    write_recipe(PLAIN + "overlays: {prod: {ttl: 2h}}\n")
    options = ("--overlay", "prod", "--set", "options.dtype=fp32")
    assert "`lmi iam tiny.yaml --overlay prod --set options.dtype=fp32`" in app.lmi("plan", *options).err


def test_hint_for_a_saved_plan_names_its_recipe(app: CloudApp) -> None:
    assert app.lmi("plan", "--set", "options.dtype=fp32", "--out", "plan.json").code == 0
    app.cloud.roles.absent.add(ROLE)
    result = app.lmi("up", "plan.json", "--yes")
    assert "`lmi iam tiny.yaml --set options.dtype=fp32`" in result.err


def test_transfer_job_role_is_checked_only_when_a_job_will_run(app: CloudApp) -> None:
    write_recipe(f"{PLAIN}weights: {{via: job}}\n")
    app.cloud.roles.absent.add(ROLE.replace("endpoint", "transfer-job"))
    result = app.lmi("plan")
    assert result.code == 1
    assert "role/lmi-transfer-job: not found in the account" in result.err
    assert "prints what the role arn:aws:iam::111122223333:role/lmi-transfer-job needs" in result.err
    write_recipe(PLAIN)
    assert app.lmi("plan").code == 0


def test_one_available_instance_type_is_enough(app: CloudApp) -> None:
    app.cloud.limits.missing.add("ml.g6.xlarge")
    assert "us-east-1 does not offer ml.g6.xlarge for endpoints" in app.up().err
    app.lmi("down", "tiny", "--yes")
    app.cloud.limits.missing.add("ml.g5.xlarge")
    assert app.lmi("up", "--yes").code == 1


def test_denied_check_is_a_warning(app: CloudApp) -> None:
    app.cloud.roles.silent = True
    result = app.up()
    assert "not checked: the role: IAM may not be asked" in result.err
    assert "not checked: your own permissions: IAM may not be asked" in result.err


def test_missing_optional_or_later_permission_is_a_warning(app: CloudApp) -> None:
    app.cloud.roles.denied |= {"logs:CreateLogStream", "sagemaker:DeleteEndpoint"}
    output = app.up().err
    assert "lacks permissions for later steps: sagemaker:DeleteEndpoint" in output
    assert "without which it still works: logs:CreateLogStream" in output


def test_log_permissions_take_one_line(app: CloudApp) -> None:
    app.cloud.roles.denied |= {"logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"}
    output = app.lmi("plan").err
    assert "logs:CreateLogGroup, logs:CreateLogStream, logs:PutLogEvents" in output
    assert sum("logs:" in line for line in output.splitlines()) == 1, output


def test_plan_reports_what_the_kms_key_does_not_encrypt(app: CloudApp) -> None:
    output = "endpoint.kms_key does not encrypt the local disks of ml.g5.xlarge"
    write_recipe(f"{PLAIN}endpoint: {{kms_key: alias/x}}\n")
    assert output in (result := app.lmi("plan")).out + result.err
    write_recipe(PLAIN)
    assert output not in (result := app.lmi("plan")).out + result.err
    write_recipe(f"{PLAIN}endpoint: {{kms_key: alias/x}}\n".replace("ml.g5.xlarge", "ml.p3.2xlarge"))
    assert "does not encrypt" not in (result := app.lmi("plan")).out + result.err
