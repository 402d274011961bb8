"""The page of rights, from the grants that `lmi iam` prints: each with what needs it, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lmi_deploy.core.buckets import default_bucket
from lmi_deploy.core.facts import CloudFacts, Facts, FileEntry, ModelListing
from lmi_deploy.core.rights import Grant
from lmi_deploy.core.spec import Spec
from lmi_deploy.decide.iam import Policies, policies
from lmi_deploy.decide.parse import parse
from lmi_deploy.decide.resolve import resolve

_HEAD: Final = """\
# The rights of a deployment on SageMaker

This page is generated from the policies that `lmi iam` prints (`lmi_deploy/decide/iam`).

`lmi iam RECIPE` prints the least that AWS must allow for this very recipe, as three documents: for who deploys it
(`--part deployer`), for the role that the endpoint runs with (`--part execution`), and who may assume that role
(`--part trust`). Nothing is created; the commands that make a role of them are said on stderr:

```
lmi iam recipe.yaml --part trust > trust.json
lmi iam recipe.yaml --part execution > execution.json
aws iam create-role --role-name lmi-endpoint --assume-role-policy-document file://trust.json
aws iam put-role-policy --role-name lmi-endpoint --policy-name lmi-NAME --policy-document file://execution.json
```

`endpoint.role` names the role, by its ARN or by its name in your account; left out, it is `lmi-endpoint`. The trust
document lets SageMaker assume it for endpoints and jobs of your own account only. `sts:GetCallerIdentity` needs no
right. Rights on `*` are on calls that know no resource.

Below, NAME is the deployment's name, ten `?` stand for the digest at the end of a resource's name, and MODEL for the
model's name in the bucket, such as `google--flan-t5-xxl`.
"""
_BASE: Final = (
    "name: NAME\nmodel_id: MODEL\nengine: custom\ninstance_type: ml.g5.xlarge\nhandler: {file: model.py}\n"
    "probe: {body: '{}'}\n"
)
_FEATURES: Final[Mapping[str, str]] = {
    "endpoint.autoscaling": "endpoint: {autoscaling: {min: 1, max: 2, invocations_per_instance: 60}}\n",
    "endpoint.vpc": "endpoint: {vpc: {subnets: [subnet-1], security_groups: [sg-1]}}\n",
    "endpoint.kms_key": "endpoint: {kms_key: KEY}\n",
    "weights.via: job": "weights: {via: job, token_secret: SECRET}\n",
    "model_id in S3": "",
}
_ACCOUNT, _REGION = "123456789012", "us-east-1"


def rights_page() -> str:
    """docs/rights.md, complete."""
    specs = {feature: _spec(text, source=feature) for feature, text in {"": "", **_FEATURES}.items()}
    found = {feature: policies(spec) for feature, spec in specs.items()}
    sections = [_HEAD]
    for part, title in (("deployer", "Who deploys"), ("execution", "The role of the endpoint")):
        sections.append("\n".join([f"## {title}", "", *_table(part, found), ""]))
    return "\n".join(sections).rstrip("\n") + "\n"


def _table(part: str, found: Mapping[str, Policies]) -> Iterator[str]:
    yield "| Actions | On | Why | Only with |"
    yield "|---|---|---|---|"
    base = _grants(found[""], part)
    told = {grant.sid: (grant, "") for grant in base}
    for feature, with_it in found.items():
        for grant in _grants(with_it, part):
            told.setdefault(grant.sid, (grant, f"`{feature}`"))
    for grant, feature in told.values():
        yield f"| {_lines(grant.actions)} | {_lines(grant.resources)} | {grant.why} | {feature} |"


def _grants(found: Policies, part: str) -> tuple[Grant, ...]:
    return found.deployer.grants if part == "deployer" else found.execution.grants


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
    recipe = parse(_BASE.replace("NAME", "name") + extra, "example")
    return resolve(recipe, Facts(listing=listing, config={}, tensors=None, cloud=cloud))
