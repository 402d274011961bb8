"""The setup of `lmi bootstrap`: the documents of `lmi iam`, as roles and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.role_setup import (
    HOUR,
    NO_RIGHTS,
    Document,
    ObservedRole,
    ObservedSetup,
    WantedPolicy,
    WantedProvider,
    WantedRole,
    WantedSetup,
    beyond,
    lacking,
    united,
)
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.targets.sagemaker.permissions import Policies, characters, policies
from lmi_deploy.targets.sagemaker.permissions.cli_commands import INLINE_MOST, MANAGED_MOST, policy_base
from lmi_deploy.targets.sagemaker.permissions.pipeline_identity import PipelineIdentity

PIPELINE_SESSION: Final = 4 * HOUR
"""A large model's first `up` takes longer than the hour that is the default."""


def team_setup(spec: Spec, *, prefix: str = "", pipeline: PipelineIdentity | None = None) -> WantedSetup:
    """For one deployment, or for all whose names begin with a prefix. The deployer's policy is a managed one if it is
    short enough; else it is the pipeline role's own, or left to the user.
    """
    found, place = policies(spec, prefix=prefix), spec.cloud
    base = policy_base(spec, prefix)
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
                name=f"lmi-{(prefix or spec.name).rstrip('-')}-pipeline",
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


def with_rights_in_use(
    wanted: WantedSetup, observed: ObservedSetup, in_use: Mapping[str, Document]
) -> WantedSetup:
    """With the rights, by the names of roles, of deployments that run with them, as far as no policy of the role gives
    them. Refused if the policies of a role become too long.
    """
    return replace(
        wanted,
        roles=tuple(_with_rights(role, observed.roles.get(role.name), in_use) for role in wanted.roles),
    )


def _with_rights(
    role: WantedRole, existing: ObservedRole | None, in_use: Mapping[str, Document]
) -> WantedRole:
    inline = {**(existing.inline if existing else {}), **role.inline}
    missing = lacking(inline.values(), in_use.get(role.name, NO_RIGHTS))
    if missing["Statement"]:
        name, document = next(iter(role.inline.items()))
        role = replace(role, inline={**role.inline, name: united(missing, document)})
    total = sum(characters(document) for document in {**inline, **role.inline}.values())
    if total > INLINE_MOST:
        raise Refused(
            f"the policies of {role.name}: with what is allowed already and what this recipe needs, {total:,} "
            f"characters; IAM takes {INLINE_MOST:,}",
            hint="--prune removes what neither this recipe nor a running deployment needs; or name another role in the "
            "recipe",
        )
    return role


def with_what_is_allowed(wanted: WantedSetup, observed: ObservedSetup) -> WantedSetup:
    """With all that its policies allow already: other deployments and generations may need it. If the deployer's
    becomes too long for a managed policy, that stays as it is, and the new one is the pipeline role's own, or left to
    the user.
    """
    policy, roles = wanted.policy, wanted.roles
    if policy is not None and observed.policy is not None:
        both = united(observed.policy.document, policy.document)
        if characters(both) > MANAGED_MOST:
            roles = tuple(_with_own(role, policy) for role in roles)
        policy = replace(policy, document=both) if characters(both) <= MANAGED_MOST else None
    roles = tuple(_with_what_is_allowed(role, observed.roles.get(role.name)) for role in roles)
    return replace(wanted, policy=policy, roles=roles)


def _with_own(role: WantedRole, policy: WantedPolicy) -> WantedRole:
    if policy.arn not in role.attached:
        return role
    attached = tuple(each for each in role.attached if each != policy.arn)
    return replace(role, attached=attached, inline={**role.inline, policy.name: policy.document})


def _with_what_is_allowed(role: WantedRole, existing: ObservedRole | None) -> WantedRole:
    if existing is None:
        return role
    both = {
        name: united(existing.inline[name], document) if name in existing.inline else document
        for name, document in role.inline.items()
    }
    return replace(role, inline=both)


class UnneededRight(NamedTuple):
    """What a policy allows beyond the recipe: a statement of it, in words."""

    policy: str
    statement: str


def not_needed(wanted: WantedSetup, observed: ObservedSetup) -> Iterator[UnneededRight]:
    """What the existing policies allow and the wanted ones do not."""
    if wanted.policy is not None and observed.policy is not None:
        for statement in beyond(observed.policy.document, wanted.policy.document):
            yield UnneededRight(wanted.policy.name, statement)
    for role in wanted.roles:
        existing = observed.roles.get(role.name)
        for name, document in role.inline.items():
            for statement in beyond(existing.inline.get(name, {}), document) if existing else ():
                yield UnneededRight(f"{name} of {role.name}", statement)


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
