"""IAM's SimulatePrincipalPolicy, which moto lacks: by the same evaluation as `--enforce-iam`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from lmi_deploy.emulator.iam.authorizer import documents_of
from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest, Document, allows, denies

OPERATION: Final = "SimulatePrincipalPolicy"
_PAGE: Final = 100
_OF_ANY_KEYS: Final = ":user/moto"
"""The caller, by moto's STS, with unknown keys: everything is allowed unless permissions are enforced."""
_EVERYTHING: Final[Document] = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
Form = Mapping[str, str]


def read_form(body: bytes) -> Form:
    return {key: values[0] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}


def simulated(account: str, form: Form) -> tuple[int, bytes]:
    """The status and the document of the response."""
    source = form.get("PolicySourceArn", "")
    documents = documents_of(account, source)
    if documents is None and source.endswith(_OF_ANY_KEYS):
        documents = (_EVERYTHING,)
    if documents is None:
        message = escape(f"The entity {source} cannot be found.")
        error = f"<Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>{message}</Message></Error>"
        return 404, f"<ErrorResponse>{error}</ErrorResponse>".encode()
    results = list(_results(documents, form))
    start = int(form.get("Marker", "0"))
    stop = start + int(form.get("MaxItems", _PAGE))
    more = f"<IsTruncated>true</IsTruncated><Marker>{stop}</Marker>" if stop < len(results) else ""
    text = "".join(results[start:stop])
    return 200, (
        f"<{OPERATION}Response><{OPERATION}Result><EvaluationResults>{text}</EvaluationResults>"
        f"{more or '<IsTruncated>false</IsTruncated>'}</{OPERATION}Result></{OPERATION}Response>"
    ).encode()


def _results(documents: Sequence[Document], form: Form) -> Iterator[str]:
    context = dict(_context(form))
    for resource in list(_members(form, "ResourceArns")) or ["*"]:
        for action in _members(form, "ActionNames"):
            request = AccessRequest(action, resource, context)
            decision = "allowed" if allows(documents, request) else "implicitDeny"
            if denies(documents, request):
                decision = "explicitDeny"
            yield (
                f"<member><EvalActionName>{escape(action)}</EvalActionName>"
                f"<EvalResourceName>{escape(resource)}</EvalResourceName>"
                f"<EvalDecision>{decision}</EvalDecision></member>"
            )


def _context(form: Form) -> Iterator[tuple[str, str]]:
    for number in count(1):
        entry = f"ContextEntries.member.{number}"
        if f"{entry}.ContextKeyName" not in form:
            return
        values = "\n".join(_members(form, f"{entry}.ContextKeyValues"))
        yield form[f"{entry}.ContextKeyName"].lower(), values


def _members(form: Form, name: str) -> Iterator[str]:
    for number in count(1):
        if f"{name}.member.{number}" not in form:
            return
        yield form[f"{name}.member.{number}"]
