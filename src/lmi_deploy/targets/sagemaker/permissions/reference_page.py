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
from lmi_deploy.targets.sagemaker.permissions import Policies, policies
from lmi_deploy.targets.sagemaker.resolve import place_of

_HEAD: Final = """\
# Permissions

This page is generated from the policies that `lmi iam` prints (`lmi_deploy/targets/sagemaker/permissions`).
What AWS requires for each
request, and where that is documented: [AWS requests](aws-requests.md).

`lmi iam RECIPE` prints the smallest policies that this recipe needs: for the person or pipeline that deploys it
(`--part deployer`), for the role that the endpoint runs with (`--part execution`), for the role that a transfer job
runs with (`--part job`, with `weights.via: job` only), and the trust document of these roles (`--part trust`). It
creates nothing; on stderr it prints the commands that create the roles:

```
lmi iam recipe.yaml --part trust > trust.json
lmi iam recipe.yaml --part execution > execution.json
aws iam create-role --role-name lmi-endpoint --assume-role-policy-document file://trust.json
aws iam put-role-policy --role-name lmi-endpoint --policy-name lmi-NAME --policy-document file://execution.json
```

`endpoint.role` names the endpoint's role, by its ARN or by its name in your account; by default it is
`lmi-endpoint`. It reads its model and writes no object. `weights.job.role` names the role of a transfer job, by
default `lmi-transfer-job`. It writes the weights of its own model and reads its own order, and can change neither
another deployment's job nor another model's weights. The trust document lets SageMaker assume them for endpoints
and jobs of your own account only. `sts:GetCallerIdentity` needs no permission. Permissions on `*` are for calls
that have no resource.

## A role for many deployments

IAM allows 10,240 characters of inline policies in one role, without whitespace, all its policies together; 2,048 in
a user, 5,120 in a group, and 6,144 in a managed policy. About eight policies of one deployment each fill the role
of endpoints. For a team, print one for all:

```
lmi iam recipe.yaml --shared team-a- --part execution > execution.json
aws iam put-role-policy --role-name lmi-endpoint --policy-name lmi-team-a --policy-document file://execution.json
```

It covers every deployment whose name begins with `team-a-`, whichever model it serves, in the recipe's account,
region and bucket, with the recipe's roles, key and VPC. End the prefix with a dash: `team-a` would also cover
`team-about`. Autoscaling is always part of it. If the team uses jobs, print it from a recipe with `weights.via:
job`. Weights are shared by all who use the bucket, so anyone with a shared policy may replace those of any model in
it: give teams that must not trust each other a bucket each (`endpoint.bucket`).

## One deployment

Below, NAME is the deployment's name, ten `?` stand for the digest at the end of a resource's name, and MODEL for
the model's name in the bucket, such as `google--flan-t5-xxl`.
"""
_BASE: Final = (
    "name: NAME\nmodel_id: MODEL\nengine: custom\ninstance_type: ml.g5.xlarge\nhandler: {file: model.py}\n"
    "probe: {body: '{}'}\n"
)
_JOB: Final = "weights: {via: job, token_secret: SECRET}\n"
_VPC: Final = "endpoint: {vpc: {subnets: [subnet-1], security_groups: [sg-1]}}\n"
_KEY: Final = "endpoint: {kms_key: KEY}\n"
_FEATURES: Final[Mapping[str, str]] = {
    "": "",
    "endpoint.autoscaling": "endpoint: {autoscaling: {min: 1, max: 2, invocations_per_instance: 60}}\n",
    "endpoint.vpc": _VPC,
    "endpoint.kms_key": _KEY,
    "weights.via: job": _JOB,
    "model_id in S3": "",
}
_OF_JOBS: Final[Mapping[str, str]] = {
    "": "weights: {via: job}\n",
    "weights.token_secret": _JOB,
    "endpoint.vpc": _JOB + _VPC,
    "endpoint.kms_key": _JOB + _KEY,
}
_PARTS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "deployer": ("Who deploys", _FEATURES),
    "execution": ("The role of the endpoint", _FEATURES),
    "job": ("The role of a transfer job", _OF_JOBS),
}
_ACCOUNT, _REGION = "123456789012", "us-east-1"


def rights_page() -> str:
    """docs/reference/permissions.md, complete."""
    sections = [_HEAD]
    for part, (title, features) in _PARTS.items():
        found = {feature: policies(_spec(text, source=feature)) for feature, text in features.items()}
        sections.append("\n".join([f"### {title}", "", *_table(part, found), ""]))
    return "\n".join(sections).rstrip("\n") + "\n"


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
    policy = {"deployer": found.deployer, "execution": found.execution, "job": found.job}[part]
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
