"""Roles as moto's IAM stores them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Credentials
from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest, Document, allows, read_document, trusts

_HOURS: Final = 12


class MotoRoles:
    def __init__(self, account: str, now: Callable[[], float] = time.time, *, lag: float = 0.0) -> None:
        """`lag`: seconds until a new role is known everywhere.

        "As a service that is accessed through computers in data centers around the world, IAM uses a distributed
        computing model called eventual consistency. Any change that you make in IAM [...] takes time to become visible
        from all possible endpoints." (IAM user guide, "Changes that I make are not always immediately visible")
        """
        self._account = account
        self._now = now
        self._lag = lag
        self._since: dict[str, float] = {}
        """When each role was created, by moto's id of it; one from before our start is old."""

    def note(self) -> None:
        """To be called after every change of IAM: moto's own dates are not those of our clock."""
        if self._lag:
            ids = iam_backend(self._account).roles.keys()
            self._since = {one: self._since.get(one, self._now()) for one in ids}

    def trusts(self, arn: str, service: str) -> bool:
        role = self._role(arn)
        if role is None or self._now() < self._since.get(role.id, 0.0) + self._lag:
            return False
        return trusts(read_document(role.assume_role_policy_document), service)

    def allows(self, arn: str, action: str, resource: str, context: Mapping[str, str] | None = None) -> bool:
        role = self._role(arn)
        return role is not None and allows(policies_of(role), AccessRequest(action, resource, context or {}))

    def assume(self, arn: str, session: str, region: str) -> Credentials:
        assumed = sts_backend(self._account).assume_role(
            region_name=region,
            role_session_name=session,
            role_arn=arn,
            policy="",
            duration=_HOURS * 3600,
            external_id="",
        )
        return Credentials(assumed.access_key_id, assumed.secret_access_key, assumed.session_token)

    def _role(self, arn: str) -> Any:
        existing = iam_backend(self._account).roles.values()
        return next((role for role in existing if role.arn == arn), None)


def policies_of(owner: Any) -> Iterator[Document]:
    """The inline and the attached policies of a role, user or group."""
    for text in owner.policies.values():
        yield read_document(text)
    for policy in owner.managed_policies.values():
        for version in policy.versions:
            if version.version_id == policy.default_version_id:
                yield read_document(version.document)


def iam_backend(account: str) -> Any:
    from moto.backends import get_backend

    return get_backend("iam")[account]["aws"]


def sts_backend(account: str) -> Any:
    from moto.backends import get_backend

    return get_backend("sts")[account]["aws"]
