"""What is set up once in an account: a bucket, roles with their policies, and the identity provider of a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from typing import Any, Final, Literal

Document = Mapping[str, Any]
"""A policy in IAM's format."""
SETUP_TAGS: Final = {"lmi:purpose": "made by lmi bootstrap"}
"""Of each role, policy and identity provider that `lmi bootstrap` creates: no other is changed or deleted."""
NO_RIGHTS: Final[Document] = {"Version": "2012-10-17", "Statement": []}
HOUR: Final = 3600


def united(existing: Document, wanted: Document) -> Document:
    """A policy that allows what either one does; the existing one itself if it allows all that is wanted.

    Statements with the same actions and conditions become one with the resources of both. Two others with the same Sid
    get numbers, as IAM takes each Sid once.
    """
    if not beyond(wanted, existing):
        return existing
    statements = [dict(statement) for statement in _statements(wanted)]
    for old in _statements(existing):
        same = next((each for each in statements if _but_resources(each) == _but_resources(old)), None)
        if same is not None and "Resource" in same:
            same["Resource"] = [*dict.fromkeys([*_listed(same["Resource"]), *_listed(old["Resource"])])]
        elif same is None:
            statements.append(_with_free_sid(old, {each.get("Sid") for each in statements}))
    return {**wanted, "Statement": statements}


def lacking(policies: Iterable[Document], rights: Document) -> Document:
    """Those of the rights that no policy gives: a wildcard may cover some of the resources of a statement."""
    given = [statement for policy in policies for statement in _statements(policy)]
    missing = []
    for right in _statements(rights):
        giving = [statement for statement in given if _gives(statement, right)]
        patterns = [pattern for statement in giving for pattern in _listed(statement.get("Resource", []))]
        resources = [
            resource
            for resource in _listed(right["Resource"])
            if not any(fnmatchcase(resource, pattern) for pattern in patterns)
        ]
        if resources:
            missing.append({**right, "Resource": resources})
    return {**rights, "Statement": missing}


def _gives(statement: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether it allows the same actions, under no further condition."""
    if statement.get("Effect") != "Allow":
        return False
    actions = {*_listed(statement.get("Action", []))}
    return actions >= {*_listed(wanted["Action"])} and statement.get("Condition") in (
        None,
        wanted.get("Condition"),
    )


def beyond(existing: Document, wanted: Document) -> tuple[str, ...]:
    """What the existing policy allows and the wanted one does not: each statement's Sid, with the resources."""
    allowed: dict[str, set[str]] = {}
    for statement in _statements(wanted):
        allowed.setdefault(_but_resources(statement), set()).update(_listed(statement.get("Resource", "")))
    found = []
    for statement in _statements(existing):
        known = allowed.get(_but_resources(statement), set())
        if more := [each for each in _listed(statement.get("Resource", "")) if each not in known]:
            found.append(f"{statement.get('Sid', '')} on {', '.join(more)}".strip())
    return tuple(found)


def _statements(document: Document) -> list[dict[str, Any]]:
    return _listed(document.get("Statement", []))


def _listed(value: Any) -> list[Any]:
    """IAM takes a list of one without its brackets."""
    return value if isinstance(value, list) else [value]


def _but_resources(statement: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in statement.items() if key not in ("Sid", "Resource")}
    actions = {"Action": sorted(_listed(rest["Action"]))} if "Action" in rest else {}
    return json.dumps({**rest, **actions}, sort_keys=True)


def _with_free_sid(statement: dict[str, Any], taken: set[str | None]) -> dict[str, Any]:
    sid = str(statement.get("Sid", ""))
    if not sid or sid not in taken:
        return statement
    names = (f"{sid.rstrip('0123456789')}{number}" for number in count(2))
    return {**statement, "Sid": next(name for name in names if name not in taken)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRole:
    """`inline` by the policies' names; `attached` are ARNs of managed policies."""

    name: str
    path: str
    use: str
    trust: Document
    inline: Mapping[str, Document]
    attached: tuple[str, ...] = ()
    session_seconds: int = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPolicy:
    """A managed policy."""

    arn: str
    document: Document

    @property
    def name(self) -> str:
        return self.arn.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedProvider:
    """Whose tokens AWS accepts (OpenID Connect)."""

    arn: str
    url: str
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSetup:
    bucket: str
    kms_key: str
    policy: WantedPolicy | None
    provider: WantedProvider | None
    roles: tuple[WantedRole, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRole:
    """`own`: `lmi bootstrap` made it."""

    trust: Document
    inline: Mapping[str, Document]
    attached: frozenset[str]
    own: bool

    def admits(self, role: WantedRole) -> bool:
        """Whether its trust policy allows at least what is wanted: each statement as it is, or without conditions."""
        statements = self.trust.get("Statement", ())
        existing = statements if isinstance(statements, list) else [statements]
        return all(
            wanted in existing or {key: wanted[key] for key in wanted if key != "Condition"} in existing
            for wanted in role.trust["Statement"]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPolicy:
    document: Document
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSetup:
    """What exists of a wanted setup. `roles` by name; `audiences`: of the identity provider, None without it."""

    bucket: bool
    policy: ObservedPolicy | None
    audiences: tuple[str, ...] | None
    roles: Mapping[str, ObservedRole]


Change = Literal[
    "create bucket",
    "create policy",
    "update policy",
    "delete policy",
    "create identity provider",
    "create role",
    "update trust",
    "put policy",
    "attach policy",
    "remove policy",
    "detach policy",
    "delete role",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One change. `subject` is what is changed; `policy` the policy's name or ARN, if it is a change of a role's."""

    change: Change
    subject: str
    policy: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        kind, _, thing = self.change.partition(" ")
        policy = f" {self.policy.rpartition('/')[2]}" if self.policy else ""
        on = f"{kind} {thing}{policy} of {self.subject}" if policy else f"{kind} {thing} {self.subject}"
        return f"{on}: {self.why}" if self.why else on


def setup_steps(wanted: WantedSetup, observed: ObservedSetup) -> Iterator[SetupStep]:
    """In an order in which each step finds what it needs."""
    if not observed.bucket:
        yield SetupStep(change="create bucket", subject=wanted.bucket, why="weights, artifacts and records")
    if (policy := wanted.policy) is not None:
        why = "permissions to deploy"
        if observed.policy is None:
            yield SetupStep(change="create policy", subject=policy.name, why=why)
        elif observed.policy.document != policy.document:
            yield SetupStep(change="update policy", subject=policy.name, why=why)
    if (provider := wanted.provider) is not None and observed.audiences is None:
        yield SetupStep(change="create identity provider", subject=provider.url)
    for role in wanted.roles:
        yield from _role_steps(role, observed.roles.get(role.name))


def _role_steps(role: WantedRole, found: ObservedRole | None) -> Iterator[SetupStep]:
    if found is None:
        yield SetupStep(change="create role", subject=role.name, why=role.use)
    elif found.own and found.trust != role.trust:
        yield SetupStep(change="update trust", subject=role.name, why=role.use)
    for name, document in role.inline.items():
        if found is None or found.inline.get(name) != document:
            yield SetupStep(change="put policy", subject=role.name, policy=name)
    for arn in role.attached:
        if found is None or arn not in found.attached:
            yield SetupStep(change="attach policy", subject=role.name, policy=arn)


def removal_steps(wanted: WantedSetup, observed: ObservedSetup) -> Iterator[SetupStep]:
    """Of what `lmi bootstrap` made. The bucket has weights in it, and an identity provider serves other roles too: both
    stay. So does a role with the policies of other deployments.
    """
    for role in wanted.roles:
        found = observed.roles.get(role.name)
        if found is None:
            continue
        if found.own and not (found.inline.keys() - role.inline.keys() or found.attached - {*role.attached}):
            yield SetupStep(change="delete role", subject=role.name)
            continue
        for name in role.inline:
            if name in found.inline:
                yield SetupStep(change="remove policy", subject=role.name, policy=name)
        for arn in role.attached:
            if arn in found.attached:
                yield SetupStep(change="detach policy", subject=role.name, policy=arn)
    if wanted.policy is not None and observed.policy is not None and observed.policy.own:
        yield SetupStep(change="delete policy", subject=wanted.policy.name)
