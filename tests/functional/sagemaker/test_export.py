"""`lmi export`: what it reads, writes, uploads and refuses; what other commands then leave alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import ListedEndpoint
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.local_app import MODEL

CLOUDFORMATION = ("export", "tiny.yaml", "--format", "cloudformation")
TERRAFORM = ("export", "tiny.yaml", "--format", "terraform")


def objects(app: CloudApp) -> set[str]:
    return {stored.key for store in app.cloud.stores.values() for stored in store.list("")}


def upload(app: CloudApp) -> str:
    """The name of the weights that the stack loads."""
    result = app.lmi(*TERRAFORM, "--upload", "--out", "tiny.tf")
    assert result.code == 0, result.err
    (manifest,) = app.depot().weights.all()
    return manifest.name


@pytest.mark.parametrize(
    ("command", "words"),
    [(CLOUDFORMATION, "Type: AWS::SageMaker::Endpoint\n"), (TERRAFORM, 'resource "aws_sagemaker_endpoint"')],
)
def test_export_prints_a_stack_and_writes_nothing(
    app: CloudApp, command: tuple[str, ...], words: str
) -> None:
    result = app.lmi(*command)
    assert result.code == 0, result.err
    assert words in result.out
    assert "objects of the stack are not in S3 yet" in result.err
    assert "lmi export tiny.yaml --format=" in result.err
    assert objects(app) == set()
    assert app.lmi(*command).out == result.out


def test_export_result_as_json(app: CloudApp) -> None:
    result = app.lmi(*TERRAFORM, "--json").lines[-1]
    assert result["uploaded"] is False
    assert result["resources"] == [
        *("aws_sagemaker_model", "aws_sagemaker_endpoint_configuration", "aws_sagemaker_endpoint"),
    ]
    assert result["parameters"] == ["endpoint_name", "execution_role_arn", "bucket"]
    assert result["without_default"] == []
    assert [each["address"].split("/")[3] for each in result["objects"]] == ["artifacts", "weights"]
    assert "aws_sagemaker_model" in result["text"]


def test_upload_puts_artifact_weights_and_claim_into_the_bucket(app: CloudApp) -> None:
    upload(app)
    found = objects(app)
    assert {key.split("/")[0] for key in found} == {"artifacts", "deployments", "manifests", "weights"}
    [artifact] = [key for key in found if key.endswith("/serving.properties")]
    assert artifact.startswith("artifacts/tiny/exported/")
    [claim] = [key for key in found if key.startswith("deployments/")]
    assert claim.startswith("deployments/tiny/exported/")
    again = app.lmi(*TERRAFORM, "--upload", "--json").lines
    assert [line for line in again if line["event"] == "started"] == []
    assert objects(app) == found
    shown = app.lmi(*CLOUDFORMATION)
    assert "not in S3" not in shown.err
    assert artifact.removesuffix("serving.properties") in shown.out


def test_upload_writes_again_what_the_bucket_lost(app: CloudApp) -> None:
    upload(app)
    found = objects(app)
    store = app.depot().store
    for lost in (f for f in found if f.startswith("deployments/") or f.endswith("serving.properties")):
        store.delete([lost])
        assert app.lmi(*TERRAFORM, "--json").lines[-1]["uploaded"] is False
        upload(app)
        assert objects(app) == found


def test_weights_of_a_stack_are_kept(app: CloudApp) -> None:
    """No record and no endpoint of lmi names them."""
    name = upload(app)
    refused = app.lmi("weights", "rm", name, "--yes")
    assert refused.code == 5
    assert "tiny (exported) uses these weights" in refused.err
    listed = app.lmi("weights", "ls", "--json").lines
    assert [line["used_by"] for line in listed if "used_by" in line] == ["tiny (exported)"]
    before = objects(app)
    assert app.lmi("gc", "--yes", "--older-than", "0").code == 0
    assert objects(app) == before
    store = app.depot().store
    store.delete([key for key in before if key.startswith("deployments/tiny/exported/")])
    assert app.lmi("weights", "rm", name, "--yes").code == 0


def test_weights_are_kept_without_their_manifest(app: CloudApp) -> None:
    upload(app)
    store = app.depot().store
    store.delete([key for key in objects(app) if key.startswith("manifests/")])
    before = objects(app)
    assert app.lmi("gc", "--yes", "--older-than", "0").code == 0
    assert objects(app) == before


def test_claim_that_cannot_be_read_frees_nothing(app: CloudApp) -> None:
    name = upload(app)
    app.depot().store.put("deployments/tiny/exported/0.json", b"{}")
    refused = app.lmi("weights", "rm", name, "--yes")
    assert refused.code == 2
    assert "deployments/tiny/exported/0.json: not the claim of an exported stack" in refused.err


def test_deployment_of_the_same_name_leaves_the_objects_of_the_stack(app: CloudApp) -> None:
    upload(app)
    exported = objects(app)
    app.up()
    app.up("--set", "options.dtype=fp32")
    assert app.lmi("down", "tiny", "--yes", "--purge").code == 0
    assert objects(app) == exported


def test_up_and_down_refuse_the_endpoint_of_a_stack(app: CloudApp) -> None:
    upload(app)
    exported = objects(app)
    cloud = app.cloud.cloud()
    app.up()
    app.lmi("down", "tiny", "--yes")
    assert cloud.hosting.endpoint("tiny") is None
    _stack_endpoint(app)
    refused = app.lmi("up", "--yes")
    assert refused.code == 5
    assert "an endpoint of that name exists, but lmi did not create it" in refused.err
    assert app.lmi("down", "tiny", "--yes").code == 5
    assert app.lmi("gc", "--yes").code == 0
    assert cloud.hosting.endpoint("tiny") is not None
    assert objects(app) == exported
    # The stack itself is exported again: what is deployed does not matter.
    assert app.lmi(*TERRAFORM, "--set", "options.dtype=fp32").code == 0


def _stack_endpoint(app: CloudApp) -> None:
    """As a stack makes it: with other names, and no tag of lmi."""
    from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, ModelSettings

    hosting = app.cloud.cloud().hosting
    role = f"arn:aws:iam::{app.cloud.account_state.caller.account}:role/lmi-endpoint"
    tags = (("exported-by", "lmi"),)
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"
    model = ModelSettings(role=role, image=image, environment=(), artifact="s3://any/artifact/")
    hosting.create_model("stack-Model-1", model, tags)
    settings = EndpointConfigSettings(
        model="stack-Model-1", instance="ml.g5.xlarge", count=1, model_download=600, startup=600
    )
    hosting.create_endpoint_config("stack-EndpointConfig-1", settings, tags)
    hosting.create_endpoint("tiny", "stack-EndpointConfig-1", tags)
    assert isinstance(next(iter(hosting.endpoints())), ListedEndpoint)


def test_out_names_a_file_or_a_folder(app: CloudApp) -> None:
    Path("stacks").mkdir()
    assert app.lmi(*TERRAFORM, "--out", "stacks").out == "stacks/tiny.tf\n"
    assert app.lmi(*CLOUDFORMATION, "-o", "new/").out == "new/tiny.template.yaml\n"
    assert app.lmi(*TERRAFORM, "-o", "main.tf").out == "main.tf\n"
    assert Path("main.tf").read_text() == Path("stacks/tiny.tf").read_text()
    assert app.lmi(*TERRAFORM, "-o", "main.tf", "--set", "endpoint.count=2").code == 0
    assert "initial_instance_count                            = 2" in Path("main.tf").read_text()


def test_file_of_the_user_is_not_overwritten(app: CloudApp) -> None:
    Path("main.tf").write_text("# mine\n")
    refused = app.lmi(*TERRAFORM, "-o", "main.tf", "--upload")
    assert refused.code == 5
    assert "main.tf: the file exists" in refused.err
    assert Path("main.tf").read_text() == "# mine\n"
    assert objects(app) == set()
    assert app.lmi(*TERRAFORM, "-o", "main.tf", "--force").code == 0
    assert "aws_sagemaker_model" in Path("main.tf").read_text()


def test_place_that_cannot_be_written_is_an_error_with_its_reason(app: CloudApp) -> None:
    Path("file").write_text("")
    refused = app.lmi(*TERRAFORM, "-o", "file/main.tf")
    assert refused.code == 2
    assert "file" in refused.err


def test_environment_values_are_neither_printed_nor_written(app: CloudApp) -> None:
    write_recipe(f"{RECIPE}container: {{environment: {{FEATURE_SERVER: canary-4711}}}}\n")
    for command in (CLOUDFORMATION, TERRAFORM):
        result = app.lmi(*command, "--json")
        assert "canary-4711" not in result.out + result.err
        shown = app.lmi(*command)
        assert "canary-4711" not in shown.out + shown.err
        assert "a parameter without a default: " in shown.err
        assert "canary-4711" in app.lmi(*command, "--environment-values").out
    assert app.lmi(*TERRAFORM, "--json").lines[-1]["without_default"] == ["environment_feature_server"]


def test_local_target_cannot_be_exported(app: CloudApp) -> None:
    write_recipe(RECIPE.replace("instance_type: [ml.g5.xlarge, ml.g6.xlarge]", "endpoint: {target: local}"))
    refused = app.lmi(*TERRAFORM)
    assert refused.code == 2
    assert "endpoint.target: local cannot be exported" in refused.err


def test_mounted_weights_are_refused_for_cloudformation_alone(app: CloudApp) -> None:
    refused = app.lmi(*CLOUDFORMATION, "--set", "weights.deliver=mount", "--upload")
    assert refused.code == 5
    assert "no AdditionalModelDataSources" in refused.err
    assert "--format terraform" in refused.err
    assert objects(app) == set()
    assert "additional_model_data_source" in app.lmi(*TERRAFORM, "--set", "weights.deliver=mount").out


@pytest.mark.parametrize("argv", [("export", "tiny.yaml"), ("export", "tiny.yaml", "--format", "pulumi")])
def test_format_must_be_named(app: CloudApp, argv: tuple[str, ...]) -> None:
    refused = app.lmi(*argv)
    assert refused.code == 2
    assert "--format" in refused.err
    assert "cloudformation" in refused.err


def test_typing_error_in_the_recipe_is_reported_with_its_line(app: CloudApp) -> None:
    write_recipe(RECIPE.replace("engine:", "engin:"))
    refused = app.lmi(*TERRAFORM)
    assert refused.code == 2
    assert "tiny.yaml:3:1: engin" in refused.err


def test_upload_by_a_job_asks_first(app: CloudApp) -> None:
    """A job costs money."""
    by_job = ("--set", "weights.via=job", "--upload")
    refused = app.lmi(*TERRAFORM, *by_job)
    assert refused.code == 2
    assert "add --yes" in refused.err
    assert app.cloud.jobs.started == {}
    result = app.lmi(*TERRAFORM, *by_job, "--yes")
    assert result.code == 0, result.err
    assert len(app.cloud.jobs.started) == 1
    assert app.lmi(*TERRAFORM, "--json").lines[-1]["uploaded"] is True


def test_upload_waits_for_no_other_process(app: CloudApp) -> None:
    """Another command has the deployment's lock."""
    upload(app)
    store = app.depot().store
    store.delete([key for key in objects(app) if key.endswith("serving.properties")])
    with app.depot().lock.hold("tiny"):
        refused = app.lmi(*TERRAFORM, "--upload")
    assert refused.code == 5
    assert MODEL not in refused.err
    assert upload(app)


def test_exported_json_is_one_line(app: CloudApp) -> None:
    out = app.lmi(*CLOUDFORMATION, "--json").out
    assert json.loads(out.splitlines()[-1])["format"] == "cloudformation"
