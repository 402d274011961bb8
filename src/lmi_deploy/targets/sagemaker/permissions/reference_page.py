"""The page of permissions, from the grants that `lmi iam` prints: each with what needs it, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts, FileEntry, ModelListing
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import DEPLOYING
from lmi_deploy.targets.sagemaker.permissions import Policies, load_role_of, policies
from lmi_deploy.targets.sagemaker.resolve import place_of

_HEAD: Final = """\
# Permissions

This page is generated from the policies that `lmi iam` prints (`lmi_deploy/targets/sagemaker/permissions`).
[AWS requests](aws-requests.md) lists what AWS requires for each request, and where AWS documents it.

`lmi iam RECIPE` prints the smallest policies that this recipe needs: for the person or pipeline that deploys it
(`--part deployer`), for the role that the endpoint runs with (`--part execution`), for the role that a transfer job
runs with (`--part job`, with `weights.via: job` only), for the role of a job that sends load (`--part load`, with
`bench.via: job` only), for the role of the job of `lmi compile` (`--part compile`, with
`compile` only), and the trust document of these roles (`--part trust`). With `endpoint.scheduler_role` it also prints
the policy and the trust document of the role with which EventBridge Scheduler deletes an expired endpoint
(`--part scheduler`, `--part scheduler-trust`). It creates nothing; on stderr it prints the
commands that create the roles:

```
lmi iam recipe.yaml --part trust > trust.json
lmi iam recipe.yaml --part execution > execution.json
aws iam create-role --role-name lmi-endpoint --assume-role-policy-document file://trust.json
aws iam put-role-policy --role-name lmi-endpoint --policy-name lmi-NAME-REGION --policy-document file://execution.json
```

An endpoint that another tool made has a config and a model with names of its own: `lmi adopt NAME --policy` prints
what a deployer needs for these, in addition ([how](../how-to/adopt-an-endpoint.md)).

`lmi bootstrap` creates them instead ([how](../how-to/set-up-an-account.md)).

`endpoint.role` names the endpoint's role, by its ARN or by its name in your account; by default it is
`lmi-endpoint`. This role can read its model and can write no object. `weights.job.role` names the role of a transfer
job, by default `lmi-transfer-job`. This role can write the weights of its own model and read the request of its own
job. It cannot change another deployment's job or another model's weights. `bench.job_role` (`--job-role`) names the
role of a load job, by default `lmi-load-job`. This role can invoke its endpoint, and read and write the files of its
own job. `compile.role` names the role of a compile
job, by default `lmi-transfer-job` too. This role can read the weights of its own model, and write only to the folder
of compile jobs. The trust document lets SageMaker assume these roles, only for endpoints and jobs of your own account.
`sts:GetCallerIdentity` needs no permission. A statement has the resource `*` if the call does not support
resource-level permissions.

## A role for many deployments

IAM limits the total size of all inline policies, without whitespace: 10,240 characters for a role, 5,120 for a group,
2,048 for a user. A managed policy can have 6,144. The role of the endpoints is full after the policies of about eight
deployments. For a team, print one policy for all deployments:

```
lmi iam recipe.yaml --shared team-a- --part execution > execution.json
aws iam put-role-policy --role-name lmi-endpoint --policy-name lmi-team-a-us-east-1 --policy-document file://execution.json
```

It covers every deployment whose name begins with `team-a-`, whichever model it serves, in the recipe's account,
region and bucket, with the recipe's roles, key and VPC. End the prefix with a dash: `team-a` would also cover
`team-about`. Autoscaling is always part of it. If the team uses jobs, print it from a recipe with
`weights.via: job`. All deployments in a bucket share its weights. So a user with a shared policy can replace the
weights of any model in the bucket. If teams must not trust each other, give each team its own bucket
(`endpoint.bucket`).

## One deployment

Below, NAME is the deployment's name. Ten `?` are the digest at the end of a resource's name. MODEL is the model's name
in the bucket, such as `google--flan-t5-xxl`.
"""
_BASE: Final = (
    "name: NAME\nmodel_id: MODEL\nengine: custom\ninstance_type: ml.g5.xlarge\nhandler: {file: model.py}\n"
    "probe: {body: '{}'}\n"
)
_JOB: Final = "weights: {via: job, token_secret: SECRET}\n"
_LOAD: Final = "bench: {via: job}\n"
_COMPILE: Final = "compile: {script: compile.py}\n"
_VPC: Final = "endpoint: {vpc: {subnets: [subnet-1], security_groups: [sg-1]}}\n"
_KEY: Final = "endpoint: {kms_key: KEY}\n"
_CAPTURE: Final = "endpoint: {data_capture: {output: 's3://captures/team/', kms_key: KEY}}\n"
_ASYNC: Final = (
    "endpoint: {asynchronous: {output: 's3://answers/team/', kms_key: KEY, error_topic: "
    "'arn:aws:sns:us-east-1:123456789012:failed'}}\n"
)
_UPDATE: Final = "endpoint: {count: 2, update: {policy: canary, alarms: [ALARM]}}\n"
_SCHEDULER: Final = "ttl: 8h\nendpoint: {scheduler_role: lmi-scheduler}\n"
_SHARE: Final = "endpoint: {share: shared}\n"
_FEATURES: Final[Mapping[str, str]] = {
    "": "",
    "endpoint.autoscaling": "endpoint: {autoscaling: {min: 1, max: 2, invocations_per_instance: 60}}\n",
    "endpoint.scheduler_role": _SCHEDULER,
    "endpoint.vpc": _VPC,
    "endpoint.kms_key": _KEY,
    "endpoint.data_capture": _CAPTURE,
    "endpoint.asynchronous": _ASYNC,
    "endpoint.update.alarms": _UPDATE,
    "endpoint.share": _SHARE,
    "weights.via: job": _JOB,
    "bench.via: job": _LOAD,
    "compile": _COMPILE,
    "model_id in S3": "",
}
_OF_JOBS: Final[Mapping[str, str]] = {
    "": "weights: {via: job}\n",
    "weights.token_secret": _JOB,
    "endpoint.vpc": _JOB + _VPC,
    "endpoint.kms_key": _JOB + _KEY,
}
_OF_LOADS: Final[Mapping[str, str]] = {
    "": _LOAD,
    "endpoint.vpc": _LOAD + _VPC,
    "endpoint.kms_key": _LOAD + _KEY,
}
_OF_COMPILES: Final[Mapping[str, str]] = {
    "": _COMPILE,
    "endpoint.vpc": _COMPILE + _VPC,
    "endpoint.kms_key": _COMPILE + _KEY,
}
_PARTS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "deployer": ("Who deploys", _FEATURES),
    "execution": ("The role of the endpoint", _FEATURES),
    "job": ("The role of a transfer job", _OF_JOBS),
    "load": ("The role of a load job", _OF_LOADS),
    "scheduler": ("The role that deletes an expired endpoint", {"": _SCHEDULER}),
    "compile": ("The role of a compile job", _OF_COMPILES),
}
_ACCOUNT, _REGION = "123456789012", "us-east-1"


def rights_page() -> str:
    """docs/reference/permissions.md, complete."""
    sections = [_HEAD]
    for part, (title, features) in _PARTS.items():
        found = {feature: _policies(text, source=feature) for feature, text in features.items()}
        sections.append("\n".join([f"### {title}", "", *_table(part, found), ""]))
    return "\n".join(sections).rstrip("\n") + "\n"


def _policies(text: str, *, source: str) -> Policies:
    spec = _spec(text, source=source)
    return policies(spec, load_role=load_role_of(spec, None) if _LOAD in text else "")


def example_specs() -> Iterator[tuple[str, Spec]]:
    """Every combination on the page, with its name."""
    for part, (_, features) in _PARTS.items():
        yield from ((f"{part} {feature}", _spec(text, source=feature)) for feature, text in features.items())


def _table(part: str, found: Mapping[str, Policies]) -> Iterator[str]:
    yield "| Actions | On | Why | Only with |"
    yield "|---|---|---|---|"
    base = _grants(found[""], part)
    response = {statement.sid: (statement, "") for statement in base}
    for feature, with_it in found.items():
        for statement in _grants(with_it, part):
            response.setdefault(statement.sid, (statement, f"`{feature}`"))
    for statement, feature in response.values():
        yield f"| {_lines(statement.actions)} | {_lines(statement.resources)} | {statement.why} | {feature} |"


def _grants(found: Policies, part: str) -> tuple[PolicyStatement, ...]:
    policy = {
        "deployer": found.deployer,
        "execution": found.execution,
        "job": found.job,
        "load": found.load,
        "scheduler": found.scheduler,
        "compile": found.compile,
    }[part]
    return policy.grants if policy else ()


def _lines(texts: tuple[str, ...]) -> str:
    return "<br>".join(f"`{_general(text)}`" for text in texts)


def _general(text: str) -> str:
    """Without the account and the region of the example."""
    bucket = default_bucket(_ACCOUNT, _REGION)
    return (
        text.replace(bucket, "BUCKET")
        .replace(_ACCOUNT, "ACCOUNT")
        .replace(_REGION, "REGION")
        .replace("name", "NAME")
    )


def _spec(extra: str, *, source: str) -> Spec:
    in_s3 = source == "model_id in S3"
    model = "s3://SOURCE/MODEL/" if in_s3 else "MODEL"
    weights = FileEntry(path="model.safetensors", size=1, oid="0" * 64, kind="sha256")
    listing = ModelListing(model_id=model, commit="0" * 40, files=(weights,), source="s3" if in_s3 else "hub")
    cloud = CloudFacts(
        account=_ACCOUNT,
        partition="aws",
        region=_REGION,
        principal="",
        bucket=default_bucket(_ACCOUNT, _REGION),
    )
    recipe = parse(_BASE.replace("NAME", "name") + extra, "example", purpose=DEPLOYING)
    facts = Facts(listing=listing, config={}, tensors=None, cloud=cloud)
    return resolve(recipe, facts, place_of)
