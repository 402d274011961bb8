"""Reads {"policies": {name: document}, "actions": [action]} and prints what parliament and policy-sentry find."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from parliament import analyze_policy_string
from policy_sentry.querying.actions import get_action_data

NEWER = ["sagemaker:CallWithBearerToken"]
"""Actions of 2026 that both databases lack; none has a resource. Parliament checks the rest of a policy that has one
less well, so that it gets the statements without them.
"""


@cache
def facts(action: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """ARN formats and dependent actions; None for an unknown action."""
    if action in NEWER:
        return ("*",), ()
    service, _, name = action.partition(":")
    found = get_action_data(service, name)
    if not found:
        return None
    rows = found[service]
    formats = {re.sub(r"\$\{[^}]*\}", "*", row["resource_arn_format"]) for row in rows}
    return tuple(formats), tuple({one for row in rows for one in row["dependent_actions"] or ()})


def meet(one: str, other: str) -> bool:
    """Whether some text matches both patterns."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*":
        return meet(one[1:], other) or meet(one, other[1:])
    if other[0] == "*":
        return meet(other, one)
    return (one[0] == other[0] or "?" in (one[0], other[0])) and meet(one[1:], other[1:])


def statement_findings(statement: Mapping[str, Any]) -> Iterator[list[str]]:
    for action in statement["Action"]:
        known = facts(action)
        if known is None:
            yield ["unknown action", action]
            continue
        formats, _ = known
        if formats == ("*",):
            fits = statement["Resource"] == ["*"]
        else:
            fits = any(
                meet(resource, each) for resource in statement["Resource"] for each in formats if each != "*"
            )
        if not fits:
            yield ["resource of another type", f"{action} on {statement['Resource']}"]


def policy_findings(document: Mapping[str, Any]) -> Iterator[list[str]]:
    granted = {action for statement in document["Statement"] for action in statement["Action"]}
    for statement in document["Statement"]:
        yield from statement_findings(statement)
    for action in sorted(granted):
        _, dependents = facts(action) or ((), ())
        yield from (["dependent action", f"{action}: {one}"] for one in dependents if one not in granted)
    older = [statement for statement in document["Statement"] if statement["Action"] != NEWER]
    for finding in analyze_policy_string(json.dumps({**document, "Statement": older})).findings:
        yield [finding.issue, str(finding.detail)]


def main() -> None:
    requests = json.load(sys.stdin)
    found = {name: list(policy_findings(document)) for name, document in requests["policies"].items()}
    found["table"] = [["unknown action", action] for action in requests["actions"] if facts(action) is None]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
