"""The port IamSetup. Sources: IAM's API reference, as botocore bundles it.

A creation whose response was lost is tried again and refused as existing: then the existing one is read and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.role_setup import (
    SETUP_TAGS,
    Document,
    ObservedPolicy,
    ObservedRole,
    WantedPolicy,
    WantedProvider,
    WantedRole,
)
from lmi_deploy.errors import LmiError, NotFound

_TAGS: Final = [{"Key": key, "Value": value} for key, value in SETUP_TAGS.items()]
_VERSIONS: Final = 5
"""Of one managed policy (IAM user guide, "IAM and AWS STS quotas")."""
_LAG_TRIES: Final = 10
_LAG_SECONDS: Final = 2.0
"""A policy that was just created may not be seen at once (IAM user guide, "Changes that I make are not always
immediately visible")."""


class AwsIamSetup:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "iam")

    def role(self, name: str) -> ObservedRole | None:
        found = _or_none(lambda: self._role("get_role", name, needs="Role"))
        if found is None:
            return None
        inline = {policy: self._inline(name, policy) for policy in self._inline_names(name)}
        return ObservedRole(
            trust=_document(found["Role"].get("AssumeRolePolicyDocument", {})),
            inline=inline,
            attached=frozenset(self._attached(name)),
            own=_own(found["Role"]),
        )

    def create_role(self, role: WantedRole) -> None:
        try:
            self._role(
                "create_role",
                role.name,
                Path=role.path,
                AssumeRolePolicyDocument=json.dumps(role.trust),
                Description=f"lmi: {role.use}",
                MaxSessionDuration=role.session_seconds,
                Tags=_TAGS,
            )
        except LmiError:
            existing = self.role(role.name)
            if existing is None or existing.trust != role.trust:
                raise

    def set_trust(self, role: WantedRole) -> None:
        self._role("update_assume_role_policy", role.name, PolicyDocument=json.dumps(role.trust))

    def put_policy(self, role: str, policy: str, document: Document) -> None:
        self._settled(
            lambda: self._role(
                "put_role_policy", role, PolicyName=policy, PolicyDocument=json.dumps(document)
            )
        )

    def attach(self, role: str, policy: str) -> None:
        self._settled(lambda: self._role("attach_role_policy", role, PolicyArn=policy))

    def remove_policy(self, role: str, policy: str) -> None:
        with suppress(NotFound):
            self._role("delete_role_policy", role, PolicyName=policy)

    def detach(self, role: str, policy: str) -> None:
        with suppress(NotFound):
            self._role("detach_role_policy", role, PolicyArn=policy)

    def delete_role(self, name: str) -> None:
        with suppress(NotFound):
            for policy in [*self._attached(name)]:
                self.detach(name, policy)
            for policy in [*self._inline_names(name)]:
                self.remove_policy(name, policy)
            self._role("delete_role", name)

    def policy(self, arn: str) -> ObservedPolicy | None:
        found = _or_none(lambda: self._policy("get_policy", arn, needs="Policy"))
        if found is None:
            return None
        version = self._policy(
            "get_policy_version",
            arn,
            needs="PolicyVersion",
            VersionId=found["Policy"]["DefaultVersionId"],
        )
        return ObservedPolicy(
            document=_document(version["PolicyVersion"]["Document"]), own=_own(found["Policy"])
        )

    def create_policy(self, policy: WantedPolicy) -> None:
        try:
            self._api(
                "create_policy",
                f"policy {policy.name}",
                resource=policy.arn,
                PolicyName=policy.name,
                PolicyDocument=json.dumps(policy.document),
                Description="lmi: what may deploy",
                Tags=_TAGS,
            )
        except LmiError:
            existing = self.policy(policy.arn)
            if existing is None or existing.document != policy.document:
                raise

    def update_policy(self, policy: WantedPolicy) -> None:
        versions = [*self._versions(policy.arn)]
        if len(versions) >= _VERSIONS:
            spare = min((each for each in versions if not each["IsDefaultVersion"]), key=_age)
            self._policy("delete_policy_version", policy.arn, VersionId=spare["VersionId"])
        self._policy(
            "create_policy_version",
            policy.arn,
            PolicyDocument=json.dumps(policy.document),
            SetAsDefault=True,
        )

    def delete_policy(self, arn: str) -> None:
        with suppress(NotFound):
            for version in [*self._versions(arn)]:
                if not version["IsDefaultVersion"]:
                    self._policy("delete_policy_version", arn, VersionId=version["VersionId"])
            self._policy("delete_policy", arn)

    def attached_to(self, arn: str) -> tuple[str, ...]:
        with suppress(NotFound):
            return tuple(
                f"{kind} {each[f'{kind.title()}Name']}"
                for kind in ("user", "group", "role")
                for each in self._api.pages(
                    "list_entities_for_policy",
                    f"policy {arn}",
                    token="Marker",
                    items=f"Policy{kind.title()}s",
                    resource=arn,
                    PolicyArn=arn,
                    EntityFilter=kind.title(),
                )
            )
        return ()

    def audiences(self, provider: str) -> tuple[str, ...] | None:
        found = _or_none(
            lambda: self._api(
                "get_open_id_connect_provider",
                f"identity provider {provider}",
                resource=provider,
                OpenIDConnectProviderArn=provider,
            )
        )
        return None if found is None else tuple(map(str, found.get("ClientIDList", ())))

    def create_provider(self, provider: WantedProvider) -> None:
        try:
            self._api(
                "create_open_id_connect_provider",
                f"identity provider {provider.url}",
                resource=provider.arn,
                Url=provider.url,
                ClientIDList=[provider.audience],
                Tags=_TAGS,
            )
        except LmiError:
            if self.audiences(provider.arn) is None:
                raise

    def _settled(self, call: Callable[[], object]) -> None:
        """Tried again while the role or the policy, which exists, is not seen yet."""
        for left in range(_LAG_TRIES - 1, -1, -1):
            try:
                call()
            except NotFound:
                if not left:
                    raise
                self._api.clock.sleep(_LAG_SECONDS)
            else:
                return

    def _inline(self, role: str, policy: str) -> Document:
        found = self._role("get_role_policy", role, needs="PolicyDocument", PolicyName=policy)
        return _document(found["PolicyDocument"])

    def _inline_names(self, role: str) -> Iterator[str]:
        return self._role_pages("list_role_policies", role, "PolicyNames")

    def _attached(self, role: str) -> Iterator[str]:
        pages = self._role_pages("list_attached_role_policies", role, "AttachedPolicies")
        return (str(each["PolicyArn"]) for each in pages)

    def _versions(self, arn: str) -> Iterator[Mapping[str, Any]]:
        return self._api.pages(
            "list_policy_versions",
            f"policy {arn}",
            token="Marker",
            items="Versions",
            resource=arn,
            PolicyArn=arn,
        )

    def _role_pages(self, call: str, role: str, items: str) -> Iterator[Any]:
        return self._api.pages(
            call, f"role {role}", token="Marker", items=items, resource=role, RoleName=role
        )

    def _role(self, call: str, name: str, *, needs: str = "", **given: Any) -> dict[str, Any]:
        return self._api(call, f"role {name}", resource=name, needs=needs, RoleName=name, **given)

    def _policy(self, call: str, arn: str, *, needs: str = "", **given: Any) -> dict[str, Any]:
        return self._api(call, f"policy {arn}", resource=arn, needs=needs, PolicyArn=arn, **given)


def _or_none(call: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return call()
    except NotFound:
        return None


def _document(value: Any) -> Document:
    """botocore decodes it; without its handlers it is URL-encoded JSON."""
    found: Document = json.loads(unquote(value)) if isinstance(value, str) else value
    return found


def _own(found: Mapping[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())}
    return SETUP_TAGS.items() <= tags.items()


def _age(version: Mapping[str, Any]) -> int:
    return int(str(version["VersionId"]).removeprefix("v"))
