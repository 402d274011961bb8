"""The port Roles: ask IAM what a role trusts and what a principal may do."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.permissions import SAGEMAKER, Permission
from lmi_deploy.errors import AccessError, NotFound

Context = tuple[tuple[str, str], ...]
_ASSUME: Final = "sts:AssumeRole"


class IamRoles:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "iam")

    def assumable(self, role: str, service: str = SAGEMAKER) -> str:
        response = self._role(role)
        statements = _many(response.get("AssumeRolePolicyDocument", {}).get("Statement", ()))
        lets = [statement for statement in statements if _names(service, statement)]
        if any(statement.get("Effect") == "Deny" and "Condition" not in statement for statement in lets):
            return f"its trust policy denies {service} the right to assume it"
        if not any(statement.get("Effect") == "Allow" for statement in lets):
            trust = f'{{"Effect": "Allow", "Principal": {{"Service": "{service}"}}, "Action": "{_ASSUME}"}}'
            return f"its trust policy does not let {service} assume it; it needs the statement {trust}"
        return ""

    def lacking(self, principal: str, rights: Sequence[Permission]) -> tuple[Permission, ...]:
        source = self._source(principal)
        if source is None:
            return ()
        equal: dict[tuple[str, Context], list[Permission]] = {}
        for right in rights:
            equal.setdefault((right.resource, right.context), []).append(right)
        return tuple(right for group in equal.values() for right in self._refused(source, group))

    def _refused(self, source: str, rights: Sequence[Permission]) -> Iterator[Permission]:
        """Of rights on one resource and in one context."""
        known = {"iam:PassedToService": SAGEMAKER, **dict(rights[0].context)}
        results = self._api.pages(
            "simulate_principal_policy",
            f"permissions of {source}",
            resource=source,
            token="Marker",
            items="EvaluationResults",
            PolicySourceArn=source,
            ActionNames=[right.action for right in rights],
            ResourceArns=[rights[0].resource],
            ContextEntries=[
                {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
                for key, value in known.items()
            ],
        )
        allowed = {result["EvalActionName"] for result in results if result["EvalDecision"] == "allowed"}
        yield from (right for right in rights if right.action not in allowed)

    def _source(self, principal: str) -> str | None:
        """The principal whose policies apply: for a session its role. None for the account's root, which may do
        everything.
        """
        resource = principal.split(":", 5)[5]
        if resource == "root":
            return None
        if resource.startswith("assumed-role/"):
            return str(self._role(resource.split("/")[1])["Arn"])
        if not resource.startswith(("role/", "user/")):
            raise AccessError(
                f"{principal}: IAM cannot simulate the permissions of this kind of principal",
                hint="nothing to do: missing permissions show when lmi uses them",
            )
        return principal

    def _role(self, role: str) -> Mapping[str, Any]:
        """By its ARN or its name; a path is no part of the name."""
        name = role.rpartition("/")[2]
        try:
            response = self._api("get_role", f"role {name}", resource=role, needs="Role", RoleName=name)
        except NotFound as exc:
            raise NotFound(
                f"role {name}: not found in the account",
                hint="name an existing role in the recipe, or create it: `lmi iam RECIPE` prints its policies",
            ) from exc
        fields: Mapping[str, Any] = response["Role"]
        return fields


def _names(service: str, statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal", {})
    services = _many(principal.get("Service", ()) if isinstance(principal, Mapping) else ())
    suggestion = principal == "*" or service in services or "*" in services
    actions = (str(action) for action in _many(statement.get("Action", ())))
    return suggestion and any(fnmatch.fnmatch(_ASSUME.lower(), action.lower()) for action in actions)


def _many(value: Any) -> Sequence[Any]:
    """IAM writes one thing, or a list of them."""
    return value if isinstance(value, (list, tuple)) else [value]
