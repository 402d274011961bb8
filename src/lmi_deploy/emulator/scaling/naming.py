"""How targets and policies are called, and the words of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.domain.naming import digest
from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import ApiError

TARGETS: Final = "scalable-targets"
POLICIES: Final = "scaling-policies"
NAMED: Final = ("ServiceNamespace", "ResourceId", "ScalableDimension")


def name_of(params: Mapping[str, Any]) -> str:
    """A target's name; the name of its policy starts with it."""
    return ":".join(params[key] for key in NAMED)


def policy_name(params: Mapping[str, Any]) -> str:
    return f"{name_of(params)}:{params['PolicyName']}"


def stamp(name: str) -> str:
    return digest({"name": name})[:22]


def matching(context: EmulatorContext, request: ApiRequest, table: str) -> Iterator[tuple[str, Row]]:
    """The records that the request names; all records if it names none."""
    for name, row in sorted(context.table(table, request.region).rows()):
        if all(request.params.get(key) in (None, row["params"][key]) for key in NAMED):
            yield name, row


def refused(message: str) -> ApiError:
    return ApiError("ValidationException", message)


def missing(what: str, params: Mapping[str, Any]) -> ApiError:
    named = "service namespace: {}, resource ID: {}, scalable dimension: {}".format(
        *(params[k] for k in NAMED)
    )
    last = f", policy name: {params['PolicyName']}" if "PolicyName" in params else ""
    return ApiError("ObjectNotFoundException", f"No {what} found for {named}{last}")
