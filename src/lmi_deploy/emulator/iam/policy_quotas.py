"""IAM's quotas on policies, and that it deletes none that is attached: moto keeps neither.

Source: IAM user guide, "IAM and AWS STS quotas": all inline policies of a user together 2,048 characters, of a role
10,240, of a group 5,120; a managed policy 6,144; a role's trust policy 2,048 (unless raised); 10 managed policies for
one user, role or group (unless raised). Whitespace is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.iam.roles import iam_backend

_INLINE: Final = {
    "PutUserPolicy": ("user", 2048),
    "PutRolePolicy": ("role", 10_240),
    "PutGroupPolicy": ("group", 5120),
}
_MANAGED: Final = ("CreatePolicy", "CreatePolicyVersion")
_TRUST: Final = {"CreateRole": "AssumeRolePolicyDocument", "UpdateAssumeRolePolicy": "PolicyDocument"}
_ATTACH: Final = {"AttachUserPolicy": "user", "AttachRolePolicy": "role", "AttachGroupPolicy": "group"}
_MANAGED_MOST: Final = 6144
_TRUST_MOST: Final = 2048
_ATTACHED_MOST: Final = 10


def policy_refusal(account: str, form: Mapping[str, str]) -> tuple[str, str]:
    """IAM's error code and message for a call that exceeds a quota, or deletes what is attached; empty if it may."""
    if message := _exceeded_quota(account, form):
        return "LimitExceeded", message
    if message := _delete_conflict(account, form):
        return "DeleteConflict", message
    return "", ""


def _exceeded_quota(account: str, form: Mapping[str, str]) -> str:
    action = form.get("Action", "")
    if action in _INLINE:
        kind, most = _INLINE[action]
        return _inline(account, kind, most, form)
    if action in _MANAGED and _size(form.get("PolicyDocument", "")) > _MANAGED_MOST:
        return f"Cannot exceed quota for PolicySize: {_MANAGED_MOST}"
    if action in _TRUST and _size(form.get(_TRUST[action], "")) > _TRUST_MOST:
        return f"Cannot exceed quota for ACLSizePerRole: {_TRUST_MOST}"
    if action in _ATTACH:
        kind = _ATTACH[action]
        existing = _holder(account, kind, form)
        attached = {} if existing is None else existing.managed_policies
        if form.get("PolicyArn") not in attached and len(attached) >= _ATTACHED_MOST:
            return f"Cannot exceed quota for PoliciesPer{kind.title()}: {_ATTACHED_MOST}"
    return ""


def _delete_conflict(account: str, form: Mapping[str, str]) -> str:
    """Source: IAM API reference, DeletePolicy: "you must first detach the policy from all users, groups, and roles"."""
    if form.get("Action") != "DeletePolicy":
        return ""
    backend = iam_backend(account)
    holders = (*backend.users.values(), *backend.groups.values(), *backend.roles.values())
    is_attached = any(form.get("PolicyArn") in holder.managed_policies for holder in holders)
    return "Cannot delete a policy attached to entities." if is_attached else ""


def _inline(account: str, kind: str, most: int, form: Mapping[str, str]) -> str:
    existing = _holder(account, kind, form)
    if existing is None:
        return ""  # moto reports that it does not exist
    others = [text for name, text in existing.policies.items() if name != form.get("PolicyName")]
    if _size(form.get("PolicyDocument", "")) + sum(map(_size, others)) <= most:
        return ""
    return f"Maximum policy size of {most} bytes exceeded for {kind} {form.get(f'{kind.title()}Name')}"


def _holder(account: str, kind: str, form: Mapping[str, str]) -> Any:
    """The user, role or group that the call names; None if there is none."""
    backend, name = iam_backend(account), form.get(f"{kind.title()}Name")
    if kind == "group":
        return backend.groups.get(name)
    existing = backend.roles if kind == "role" else backend.users
    return next((one for one in existing.values() if one.name == name), None)


def _size(document: str) -> int:
    return len(re.sub(r"\s", "", document))
