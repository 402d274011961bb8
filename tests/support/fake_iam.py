"""Roles, policies and identity providers in memory, as `lmi bootstrap` changes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lmi_deploy.domain.role_setup import (
    Document,
    ObservedPolicy,
    ObservedRole,
    WantedPolicy,
    WantedProvider,
    WantedRole,
)
from lmi_deploy.errors import NotFound, Refused


@dataclass
class FakeIamSetup:
    roles: dict[str, ObservedRole] = field(default_factory=dict)
    policies: dict[str, ObservedPolicy] = field(default_factory=dict)
    providers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    attached: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By a policy's ARN the users and groups that have it."""
    changes: int = 0
    fails_at: int | None = None
    """The number of the change, from 0, that is not made any more."""

    def role(self, name: str) -> ObservedRole | None:
        return self.roles.get(name)

    def create_role(self, role: WantedRole) -> None:
        self._change()
        self.roles.setdefault(
            role.name, ObservedRole(trust=role.trust, inline={}, attached=frozenset(), own=True)
        )

    def set_trust(self, role: WantedRole) -> None:
        self._change()
        self.roles[role.name] = replace(self._existing(role.name), trust=role.trust)

    def put_policy(self, role: str, policy: str, document: Document) -> None:
        self._change()
        found = self._existing(role)
        self.roles[role] = replace(found, inline={**found.inline, policy: document})

    def attach(self, role: str, policy: str) -> None:
        self._change()
        if policy not in self.policies:
            raise NotFound(f"policy {policy}: not found", hint="create it")
        found = self._existing(role)
        self.roles[role] = replace(found, attached=found.attached | {policy})

    def remove_policy(self, role: str, policy: str) -> None:
        self._change()
        found = self._existing(role)
        self.roles[role] = replace(
            found, inline={name: each for name, each in found.inline.items() if name != policy}
        )

    def detach(self, role: str, policy: str) -> None:
        self._change()
        found = self._existing(role)
        self.roles[role] = replace(found, attached=found.attached - {policy})

    def delete_role(self, name: str) -> None:
        self._change()
        self.roles.pop(name, None)

    def policy(self, arn: str) -> ObservedPolicy | None:
        return self.policies.get(arn)

    def create_policy(self, policy: WantedPolicy) -> None:
        self._change()
        self.policies[policy.arn] = ObservedPolicy(document=policy.document, own=True)

    def update_policy(self, policy: WantedPolicy) -> None:
        self._change()
        self.policies[policy.arn] = replace(self.policies[policy.arn], document=policy.document)

    def delete_policy(self, arn: str) -> None:
        self._change()
        if any(arn in role.attached for role in self.roles.values()):
            raise Refused(f"policy {arn}: attached", hint="detach it")
        self.policies.pop(arn, None)

    def attached_to(self, arn: str) -> tuple[str, ...]:
        roles = [f"role {name}" for name, role in self.roles.items() if arn in role.attached]
        return (*self.attached.get(arn, ()), *roles)

    def audiences(self, provider: str) -> tuple[str, ...] | None:
        return self.providers.get(provider)

    def create_provider(self, provider: WantedProvider) -> None:
        self._change()
        self.providers[provider.arn] = (provider.audience,)

    def _existing(self, role: str) -> ObservedRole:
        if role not in self.roles:
            raise NotFound(f"role {role}: not found", hint="create it")
        return self.roles[role]

    def _change(self) -> None:
        if self.changes == self.fails_at:
            raise ConnectionError("the process ends here")
        self.changes += 1
