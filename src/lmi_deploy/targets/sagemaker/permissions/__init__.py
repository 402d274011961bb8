"""The minimum permissions for a deployment: of the deployer, of its roles, and who may assume them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import SAGEMAKER, SCHEDULER, Permission, PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.compile_job_policy import compile_job
from lmi_deploy.targets.sagemaker.permissions.deployer_policy import deployer
from lmi_deploy.targets.sagemaker.permissions.execution_role_policy import execution
from lmi_deploy.targets.sagemaker.permissions.load_job_policy import load_job
from lmi_deploy.targets.sagemaker.permissions.scheduler_policy import scheduler
from lmi_deploy.targets.sagemaker.permissions.transfer_job_policy import transfer_job
from lmi_deploy.targets.sagemaker.roles import LOAD_ROLE, role_arn
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_image

PARTS: Final = ("deployer", "execution", "job", "load", "compile", "trust", "scheduler", "scheduler-trust")


def characters(document: Mapping[str, Any]) -> int:
    """Of a policy, as IAM counts them for its quotas."""
    return len(json.dumps(document, separators=(",", ":")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    grants: tuple[PolicyStatement, ...]

    @property
    def rights(self) -> tuple[Permission, ...]:
        """Used to ask IAM whether a principal has them."""
        return tuple(right for statement in self.grants for right in statement.rights)

    @property
    def characters(self) -> int:
        return characters(self.document)

    @property
    def document(self) -> dict[str, Any]:
        """In IAM's format."""
        return {"Version": "2012-10-17", "Statement": [_statement(statement) for statement in self.grants]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    deployer: Policy
    """plan, up, status, logs, invoke, rollback, down."""
    execution: Policy
    """The role of the endpoint."""
    job: Policy | None
    """The role of a transfer job; None if the recipe has none."""
    load: Policy | None
    """The role of a job that sends load; None if the recipe has none."""
    compile: Policy | None
    """The role of a compile job; None if the recipe has no `compile`."""
    trust: Mapping[str, Any]
    """Of the roles of endpoint and jobs."""
    scheduler: Policy | None
    """The role that deletes the endpoint at its expiry; None if the recipe has none."""
    scheduler_trust: Mapping[str, Any]

    @property
    def documents(self) -> dict[str, Any]:
        """By the names of PARTS."""
        return {
            "deployer": self.deployer.document,
            "execution": self.execution.document,
            **({"job": self.job.document} if self.job else {}),
            **({"load": self.load.document} if self.load else {}),
            **({"compile": self.compile.document} if self.compile else {}),
            "trust": dict(self.trust),
            **(
                {"scheduler": self.scheduler.document, "scheduler-trust": dict(self.scheduler_trust)}
                if self.scheduler
                else {}
            ),
        }


def policies(spec: Spec, *, prefix: str = "", load_role: str = "") -> Policies:
    """For a spec of target sagemaker; with a prefix, for all similar deployments whose names start with it.
    `load_role`: the ARN of the role of `bench.via: job`; empty if the recipe has none.
    """
    arns, compiling = Arns(spec, prefix), spec.cloud.compile
    versions = [(spec, arns)]
    if spec.candidate is not None:
        versions.append((spec.candidate.spec, Arns(spec.candidate.spec, prefix)))
    jobs = [transfer_job(one, one.cloud.job, its) for one, its in versions if one.cloud.job is not None]
    return Policies(
        deployer=merged(deployer(one, its, load_role=load_role) for one, its in versions),
        execution=merged(execution(one, its) for one, its in versions),
        job=merged(jobs) if jobs else None,
        load=_load(spec, arns) if load_role else None,
        trust=_trust(spec.cloud.account, SAGEMAKER),
        scheduler=Policy(grants=tuple(scheduler(arns))) if spec.cloud.scheduler_role else None,
        scheduler_trust=_trust(spec.cloud.account, SCHEDULER),
        compile=None if compiling is None else Policy(grants=tuple(compile_job(spec, compiling, arns))),
    )


def merged(versions: Iterable[Iterable[PolicyStatement]]) -> Policy:
    """Of several versions, such as the serving one and its candidate: one statement of each kind, and all resources."""
    found: dict[object, PolicyStatement] = {}
    for statement in (one for statements in versions for one in statements):
        key = (statement.sid, statement.actions, statement.conditions)
        resources = (*(found[key].resources if key in found else ()), *statement.resources)
        found[key] = replace(statement, resources=tuple(dict.fromkeys(resources)))
    return Policy(grants=tuple(found.values()))


def _load(spec: Spec, arns: Arns) -> Policy:
    return Policy(grants=tuple(load_job(spec, job_image(spec.cloud.region), arns)))


def load_role_of(spec: Spec, role: str | None) -> str:
    """The ARN of this role, a plain name or empty, for a job that sends load."""
    return role_arn(role, spec.cloud, default=LOAD_ROLE, key="bench.job_role")


def _trust(account: str, service: str) -> dict[str, Any]:
    """Only for resources of this account: the service in the name of another account cannot use the role."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _statement(policy_statement: PolicyStatement) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "Sid": policy_statement.sid,
        "Effect": "Allow",
        "Action": list(policy_statement.actions),
        "Resource": list(policy_statement.resources),
    }
    for operator, key, values in policy_statement.conditions:
        existing = statement.setdefault("Condition", {}).setdefault(operator, {})
        existing[key] = values[0] if len(values) == 1 else list(values)
    return statement
