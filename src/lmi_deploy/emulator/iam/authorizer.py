"""`--enforce-iam`: may this caller do this? Keys that IAM did not make are the account's root: it may do everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest, Document, allows, denies
from lmi_deploy.emulator.iam.roles import iam_backend, policies_of, sts_backend
from lmi_deploy.emulator.wire.errors import ApiError


@dataclass(frozen=True, slots=True)
class AuthorizedCaller:
    arn: str
    documents: tuple[Document, ...]


class AccessDenied(ApiError):
    """AWS's words, which name the caller, the action and the resource."""

    def __init__(self, caller: AuthorizedCaller, request: AccessRequest) -> None:
        why = (
            "with an explicit deny in an identity-based policy"
            if denies(caller.documents, request)
            else f"because no identity-based policy allows the {request.action} action"
        )
        super().__init__(
            "AccessDeniedException",
            request.refusal
            or f"User: {caller.arn} is not authorized to perform: {request.action} on resource: "
            f"{request.resource} {why}",
        )


class Authorizer:
    def __init__(self, account: str) -> None:
        self._account = account
        self._used: dict[str, dict[tuple[str, str], None]] = {}

    @property
    def used(self) -> dict[str, list[tuple[str, str]]]:
        """By the caller's ARN: actions and resources that were requested, allowed or not, in the order of first use."""
        return {arn: list(rights) for arn, rights in self._used.items()}

    def require(self, key: str, requests: Iterable[AccessRequest]) -> None:
        """AccessDenied at the first request that the caller's policies do not allow."""
        caller = self._caller(key)
        if caller is None:
            return
        for request in requests:
            self._used.setdefault(caller.arn, {})[request.action, request.resource] = None
            if not allows(caller.documents, request):
                raise AccessDenied(caller, request)

    def _caller(self, key: str) -> AuthorizedCaller | None:
        backend = iam_backend(self._account)
        user = backend.get_user_from_access_key_id(key)
        if user is not None:
            return AuthorizedCaller(user.arn, tuple(_of_user(backend, user)))
        assumed = sts_backend(self._account).get_assumed_role_from_access_key(key)
        if assumed is None:
            return None
        role = next((role for role in backend.roles.values() if role.arn == assumed.role_arn), None)
        return AuthorizedCaller(assumed.arn, tuple(policies_of(role)) if role is not None else ())


def arn_of_key(account: str, key: str) -> str:
    """Who sends requests with this access key."""
    user = iam_backend(account).get_user_from_access_key_id(key)
    caller = user or sts_backend(account).get_assumed_role_from_access_key(key)
    return str(caller.arn) if caller else f"arn:aws:iam::{account}:root"


def documents_of(account: str, arn: str) -> tuple[Document, ...] | None:
    """The policies of the user or role of this ARN; None if it does not exist."""
    backend = iam_backend(account)
    role = next((role for role in backend.roles.values() if role.arn == arn), None)
    if role is not None:
        return tuple(policies_of(role))
    user = next((user for user in backend.users.values() if user.arn == arn), None)
    return tuple(_of_user(backend, user)) if user is not None else None


def _of_user(backend: Any, user: Any) -> Iterator[Document]:
    yield from policies_of(user)
    for group in backend.get_groups_for_user(user.name):
        yield from policies_of(group)
