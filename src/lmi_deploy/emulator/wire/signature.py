"""Parse the signature of a request: whose key, for which service, over which parts. `wire/signature_check.py` checks
it.

Forms: AWS Signature Version 4 in the `Authorization` header or in the query (a presigned URL), and Version 2 in the
query of a presigned URL of S3, which botocore still makes by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.emulator.wire.errors import ApiError

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_FIELD: Final = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]+)")


@dataclass(frozen=True, slots=True)
class Signature:
    """`key` is the access key, `date` the scope's day, `signed` the names of the headers that it covers.

    `moment` is when it was made, as it was written; of Version 2 it is the second at which the URL expires.
    """

    key: str
    region: str
    service: str
    value: str = ""
    date: str = ""
    moment: str = ""
    expires: str = ""
    token: str = ""
    signed: tuple[str, ...] = ()
    form: Literal["header", "query", "version 2"] = "header"

    @property
    def is_of_s3(self) -> bool:
        return self.service in ("s3", "s3express")

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


def read_signature(headers: Mapping[str, str], query: Mapping[str, str]) -> Signature | None:
    """From the header or the query; None if there is none."""
    header = headers.get("Authorization", "")
    if header.startswith("AWS4-"):
        return _of_header(header, headers)
    if "X-Amz-Credential" in query:
        return _of_query(query)
    if "AWSAccessKeyId" in query and "Signature" in query:
        return Signature(
            key=query["AWSAccessKeyId"],
            region="us-east-1",
            service="s3",
            value=query["Signature"],
            moment=query.get("Expires", ""),
            token=query.get("x-amz-security-token", ""),
            form="version 2",
        )
    return None


def _of_header(header: str, headers: Mapping[str, str]) -> Signature:
    algorithm, _, rest = header.partition(" ")
    fields = dict(_FIELD.findall(rest))
    if len(fields) != 3:
        raise _incomplete(header)
    _require_algorithm(algorithm)
    key, date, region, service = _scope(fields["Credential"], header)
    return Signature(
        key=key,
        region=region,
        service=service,
        value=fields["Signature"],
        date=date,
        moment=headers.get("X-Amz-Date", ""),
        token=headers.get("X-Amz-Security-Token", ""),
        signed=tuple(fields["SignedHeaders"].split(";")),
    )


def _of_query(query: Mapping[str, str]) -> Signature:
    _require_algorithm(query.get("X-Amz-Algorithm", ALGORITHM))
    key, date, region, service = _scope(query["X-Amz-Credential"], query["X-Amz-Credential"])
    return Signature(
        key=key,
        region=region,
        service=service,
        value=query.get("X-Amz-Signature", ""),
        date=date,
        moment=query.get("X-Amz-Date", ""),
        expires=query.get("X-Amz-Expires", ""),
        token=query.get("X-Amz-Security-Token", ""),
        signed=tuple(query.get("X-Amz-SignedHeaders", "").split(";")),
        form="query",
    )


def _require_algorithm(algorithm: str) -> None:
    if algorithm != ALGORITHM:
        raise ApiError(
            "InvalidSignatureException",
            f"The emulator supports {ALGORITHM}, not {algorithm[:40]}",
            status=403,
        )


def _scope(text: str, header: str) -> tuple[str, str, str, str]:
    """Access key, day, region, service."""
    parts = text.split("/")
    if len(parts) < 5 or parts[-1] != "aws4_request":
        raise _incomplete(header)
    return "/".join(parts[:-4]), parts[-4], parts[-3], parts[-2].lower()


def _incomplete(header: str) -> ApiError:
    return ApiError(
        "IncompleteSignatureException",
        f"Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' "
        f"parameter. Authorization={header[:40]}",
    )
