"""Set up an account once: bucket, roles, policies and the identity of a pipeline; and take that away again.

Each step can be repeated: after an interruption the next run plans what is still missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.role_setup import (
    Change,
    ObservedSetup,
    SetupStep,
    WantedSetup,
)
from lmi_deploy.domain.sagemaker.tags import BUCKET_TAGS
from lmi_deploy.errors import LmiError, Refused
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.message_callback import Notify
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.list_deployments import ListScope, list_deployments
from lmi_deploy.workflows.status import status


def observe(wanted: WantedSetup, cloud: Cloud) -> ObservedSetup:
    setup = cloud.iam_setup
    roles = {role.name: setup.role(role.name) for role in wanted.roles}
    return ObservedSetup(
        bucket=cloud.account.has_bucket(wanted.bucket),
        policy=None if wanted.policy is None else setup.policy(wanted.policy.arn),
        audiences=None if wanted.provider is None else setup.audiences(wanted.provider.arn),
        roles={name: found for name, found in roles.items() if found is not None},
    )


def refuse_foreign(wanted: WantedSetup, observed: ObservedSetup) -> None:
    """What others made is used, but never changed: neither who may assume a role, nor a managed policy."""
    for role in wanted.roles:
        found = observed.roles.get(role.name)
        if found is not None and not found.own and not found.admits(role):
            raise Refused(
                f"role {role.name}: it exists, was not made by lmi bootstrap, and its trust policy is not the one for: "
                f"{role.use}",
                hint="name another role in the recipe, or change its trust policy yourself: `lmi iam RECIPE --part "
                "trust` prints it",
            )
    provider = wanted.provider
    if provider and observed.audiences is not None and provider.audience not in observed.audiences:
        raise Refused(
            f"identity provider {provider.url}: it exists, and does not accept tokens for {provider.audience}",
            hint=f"run aws iam add-client-id-to-open-id-connect-provider --open-id-connect-provider-arn {provider.arn} "
            f"--client-id {provider.audience}",
        )
    policy, existing = wanted.policy, observed.policy
    if policy and existing and not existing.own and existing.document != policy.document:
        raise Refused(
            f"policy {policy.name}: it exists, was not made by lmi bootstrap, and has other content",
            hint="rename or delete it, or use another --shared PREFIX",
        )


def deployments_of(name: str, prefix: str, deps: Dependencies, notify: Notify) -> list[DeploymentRef]:
    """What exists in any region under the name, or under the prefix. Regions that an organization denies are named by
    `notify`; AccessError if none can be listed.
    """
    rows = list_deployments((), ListScope(everywhere=True, all_regions=True), deps)
    if not rows.listed_regions:
        rows.require_complete()
    denied: dict[str, list[str]] = {}
    for place, error in rows.failed.items():
        denied.setdefault(error.message, []).append(place)
    for message, places in denied.items():
        notify(f"not looked for deployments in {', '.join(places)}: {message}")
    # Where endpoints may not be listed, the tags tell of them, some minutes late.
    unlisted = bool(rows.unlisted_reasons)
    refs = [
        row.ref
        for row in rows.rows
        if row.listed is None or row.listed.status or (unlisted and row.listed.tagged_endpoint)
    ]
    return [ref for ref in refs if (ref.name.startswith(prefix) if prefix else ref.name == name)]


def with_cost(ref: DeploymentRef, deps: Dependencies) -> str:
    """In words. Who sets up an account need not have the right to read each deployment."""
    try:
        cost = status(ref, deps).cost
    except LmiError:
        cost = ""
    return f"{ref.name} in {ref.region}" + (f", {cost}" if cost else "")


def generations_of(
    refs: Iterable[DeploymentRef], deps: Dependencies, notify: Notify
) -> Iterator[tuple[DeploymentRef, Generation, Asynchronous | None]]:
    """Of deployments, those to go back to as well, with the asynchronous settings of their endpoint configs. `notify`:
    what could not be read.
    """
    for ref in refs:
        try:
            record = deps.targets["sagemaker"].read_record(ref) or Record(ref=ref)
            for generation in record.known:
                config = None
                if generation.serving.cloud.async_output:
                    config = deps.cloud(ref.region).hosting.endpoint_config(generation.server)
                yield record.ref, generation, config.settings.asynchronous if config else None
        except LmiError as error:
            notify(f"what {ref.name} in {ref.region} runs with is unknown: {error.message}")


def require_unused(wanted: WantedSetup, cloud: Cloud, running: Sequence[str]) -> None:
    """Before anything is deleted: what runs needs its role, and IAM deletes no policy that is attached."""
    if running:
        raise Refused(
            f"{', '.join(running)}: would lose the rights that it runs with",
            hint="`lmi down` it first, or keep the roles",
        )
    own = {f"role {role.name}" for role in wanted.roles}
    policy = wanted.policy
    if policy and (others := [each for each in cloud.iam_setup.attached_to(policy.arn) if each not in own]):
        raise Refused(
            f"policy {policy.name}: attached to {', '.join(others)}; nothing was deleted",
            hint=f"detach it, for a user by aws iam detach-user-policy --user-name NAME --policy-arn {policy.arn}",
        )


def carry_out(steps: list[SetupStep], wanted: WantedSetup, cloud: Cloud) -> Iterator[SetupStep]:
    """Each step after it was done."""
    for step in steps:
        _calls(step, wanted, cloud)[step.change]()
        yield step


def _calls(step: SetupStep, wanted: WantedSetup, cloud: Cloud) -> Mapping[Change, Callable[[], object]]:
    setup, policy, provider = cloud.iam_setup, wanted.policy, wanted.provider
    roles = {role.name: role for role in wanted.roles}
    calls: dict[Change, Callable[[], object]] = {
        "create bucket": lambda: cloud.account.make_bucket(
            wanted.bucket, tags=BUCKET_TAGS, kms_key=wanted.kms_key
        ),
        "delete role": partial(setup.delete_role, step.subject),
        "attach policy": partial(setup.attach, step.subject, step.policy),
        "remove policy": partial(setup.remove_policy, step.subject, step.policy),
        "detach policy": partial(setup.detach, step.subject, step.policy),
    }
    if policy is not None:
        calls["create policy"] = partial(setup.create_policy, policy)
        calls["update policy"] = partial(setup.update_policy, policy)
        calls["delete policy"] = partial(setup.delete_policy, policy.arn)
    if provider is not None:
        calls["create identity provider"] = partial(setup.create_provider, provider)
    if (role := roles.get(step.subject)) is not None:
        calls["create role"] = partial(setup.create_role, role)
        calls["update trust"] = partial(setup.set_trust, role)
        if step.policy in role.inline:
            calls["put policy"] = partial(setup.put_policy, role.name, step.policy, role.inline[step.policy])
    return calls
