"""The setup of `lmi bootstrap`: the documents of `lmi iam`, as roles and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.role_setup import (
    HOUR,
    Document,
    WantedPolicy,
    WantedProvider,
    WantedRole,
    WantedSetup,
)
from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.sagemaker.permissions import Policies, policies
from lmi_deploy.targets.sagemaker.permissions.cli_commands import INLINE_MOST, MANAGED_MOST
from lmi_deploy.targets.sagemaker.permissions.pipeline_identity import PipelineIdentity

PIPELINE_SESSION: Final = 4 * HOUR
"""A large model's first `up` takes longer than the hour that is the default."""


def team_setup(spec: Spec, *, prefix: str = "", pipeline: PipelineIdentity | None = None) -> WantedSetup:
    """For one deployment, or for all whose names begin with a prefix. The deployer's policy is a managed one if it is
    short enough; else it is the pipeline role's own, or left to the user.
    """
    found, base = policies(spec, prefix=prefix), f"lmi-{(prefix or spec.name).rstrip('-')}"
    place = spec.cloud
    arn = f"arn:{place.partition}:iam::{place.account}:policy/{base}-deployer"
    managed = found.deployer.characters <= MANAGED_MOST
    roles = [*_service_roles(spec, found, base)]
    if pipeline is not None:
        if found.deployer.characters > INLINE_MOST:
            raise UsageRefused(
                f"the deployer's policy has {found.deployer.characters:,} characters, a role may have {INLINE_MOST:,}",
                hint="use --shared PREFIX: one policy for all deployments is shorter",
            )
        roles.append(
            WantedRole(
                name=f"{base}-pipeline",
                path="/",
                use=f"deploys from a pipeline ({' or '.join(pipeline.subjects)})",
                trust=pipeline.trust(place.account, place.partition),
                inline={} if managed else {f"{base}-deployer": found.deployer.document},
                attached=(arn,) if managed else (),
                session_seconds=PIPELINE_SESSION,
            )
        )
    return WantedSetup(
        bucket=place.bucket,
        kms_key=place.kms_key,
        policy=WantedPolicy(arn=arn, document=found.deployer.document) if managed else None,
        provider=None if pipeline is None else _provider(pipeline, spec),
        roles=tuple(_merged(roles)),
    )


def _provider(pipeline: PipelineIdentity, spec: Spec) -> WantedProvider:
    place = spec.cloud
    arn = pipeline.provider_arn(place.account, place.partition)
    return WantedProvider(arn=arn, url=pipeline.url, audience=pipeline.audience)


def _service_roles(spec: Spec, found: Policies, base: str) -> Iterator[WantedRole]:
    place = spec.cloud
    yield _role(place.role, "endpoint", found.trust, {base: found.execution.document})
    if place.job is not None and found.job is not None:
        yield _role(place.job.role, "transfer job", found.trust, {f"{base}-job": found.job.document})
    if place.compile is not None and found.compile is not None:
        yield _role(
            place.compile.role, "compile job", found.trust, {f"{base}-compile": found.compile.document}
        )
    if found.scheduler is not None:
        inline = {f"{base}-scheduler": found.scheduler.document}
        yield _role(place.scheduler_role, "deletion at expiry", found.scheduler_trust, inline)


def _role(arn: str, use: str, trust: Document, inline: Mapping[str, Document]) -> WantedRole:
    path, _, name = arn.partition(":role/")[2].rpartition("/")
    return WantedRole(name=name, path=f"/{path}/" if path else "/", use=use, trust=trust, inline=inline)


def _merged(roles: list[WantedRole]) -> Iterator[WantedRole]:
    """One for each name: a recipe may give several uses the same role."""
    by_name: dict[str, list[WantedRole]] = {}
    for role in roles:
        by_name.setdefault(role.name, []).append(role)
    for same in by_name.values():
        statements: list[Any] = []
        for role in same:
            statements += [each for each in role.trust["Statement"] if each not in statements]
        yield WantedRole(
            name=same[0].name,
            path=same[0].path,
            use=", ".join(role.use for role in same),
            trust={**same[0].trust, "Statement": statements},
            inline={name: document for role in same for name, document in role.inline.items()},
            attached=tuple(arn for role in same for arn in role.attached),
            session_seconds=max(role.session_seconds for role in same),
        )
