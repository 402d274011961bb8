"""What stands in the way is told before anything is made: all of it, and only where something would be made."""

from __future__ import annotations

from tests.support.cloud_app import CloudHouse, write_recipe

PLAIN = "name: tiny\nmodel_id: org/tiny\nengine: accelerate\ninstance_type: ml.g5.xlarge\n"
ROLE = "arn:aws:iam::111122223333:role/lmi-endpoint"


def test_everything_in_the_way_is_told_at_once(house: CloudHouse) -> None:
    write_recipe(PLAIN)
    house.cloud.roles.distrusting[ROLE] = "its trust policy does not let SageMaker assume it"
    house.cloud.roles.denied.add("sagemaker:CreateModel")
    house.cloud.world.quotas["ml.g5.xlarge"] = 0.0
    ran = house.lmi("up", "--yes")
    assert ran.code == 1
    assert "3 things stand in the way; nothing was made" in ran.err
    assert "does not let SageMaker assume it" in ran.err
    assert "may not sagemaker:CreateModel on arn:" in ran.err
    assert 'the quota "ml.g5.xlarge for endpoint usage" in us-east-1 is 0' in ran.err
    assert "--quota-code L-12345678 --desired-value 1" in ran.err
    assert house.kept_in_cloud() == []
    assert house.cloud.account.buckets == {}


def test_a_role_that_is_not_there(house: CloudHouse) -> None:
    house.cloud.roles.absent.add(ROLE)
    ran = house.lmi("plan")
    assert ran.code == 1
    assert "there is no such role" in ran.err
    assert "`lmi iam tiny.yaml`" in ran.err


def test_the_hint_repeats_overlay_and_overrides(house: CloudHouse) -> None:
    house.cloud.roles.absent.add(ROLE)
    write_recipe(PLAIN + "overlays: {prod: {ttl: 2h}}\n")
    options = ("--overlay", "prod", "--set", "options.dtype=fp32")
    assert "`lmi iam tiny.yaml --overlay prod --set options.dtype=fp32`" in house.lmi("plan", *options).err


def test_a_saved_plan_names_its_recipe_in_hints(house: CloudHouse) -> None:
    assert house.lmi("plan", "--set", "options.dtype=fp32", "--out", "plan.json").code == 0
    house.cloud.roles.absent.add(ROLE)
    ran = house.lmi("up", "plan.json", "--yes")
    assert "`lmi iam tiny.yaml --set options.dtype=fp32`" in ran.err


def test_the_role_of_a_transfer_job_is_looked_at_where_a_job_is_about_to_run(house: CloudHouse) -> None:
    write_recipe(f"{PLAIN}weights: {{via: job}}\n")
    house.cloud.roles.absent.add(ROLE.replace("endpoint", "transfer-job"))
    ran = house.lmi("plan")
    assert ran.code == 1
    assert "role/lmi-transfer-job: there is no such role" in ran.err
    assert "prints what the role arn:aws:iam::111122223333:role/lmi-transfer-job needs" in ran.err
    write_recipe(PLAIN)
    assert house.lmi("plan").code == 0


def test_one_instance_type_that_can_be_had_is_enough(house: CloudHouse) -> None:
    house.cloud.limits.missing.add("ml.g6.xlarge")
    assert "us-east-1 does not offer ml.g6.xlarge for endpoints" in house.up().err
    house.lmi("down", "tiny", "--yes")
    house.cloud.limits.missing.add("ml.g5.xlarge")
    assert house.lmi("up", "--yes").code == 1


def test_what_may_not_be_asked_is_said_and_stops_nothing(house: CloudHouse) -> None:
    house.cloud.roles.silent = True
    ran = house.up()
    assert "not checked: the role: IAM may not be asked" in ran.err
    assert "not checked: your own rights: IAM may not be asked" in ran.err


def test_what_comforts_or_comes_later_stops_nothing(house: CloudHouse) -> None:
    house.cloud.roles.denied |= {"logs:CreateLogStream", "sagemaker:DeleteEndpoint"}
    told = house.up().err
    assert "may not do what is needed later: sagemaker:DeleteEndpoint" in told
    assert "may not logs:CreateLogStream" in told


def test_the_plan_says_what_a_key_does_not_encrypt(house: CloudHouse) -> None:
    said = "endpoint.kms_key does not encrypt the local disks of ml.g5.xlarge"
    write_recipe(f"{PLAIN}endpoint: {{kms_key: alias/x}}\n")
    assert said in (ran := house.lmi("plan")).out + ran.err
    write_recipe(PLAIN)
    assert said not in (ran := house.lmi("plan")).out + ran.err
    write_recipe(f"{PLAIN}endpoint: {{kms_key: alias/x}}\n".replace("ml.g5.xlarge", "ml.p3.2xlarge"))
    assert "does not encrypt" not in (ran := house.lmi("plan")).out + ran.err
