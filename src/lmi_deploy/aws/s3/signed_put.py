"""PUTs of bytes with botocore's signer and connections, but without its per-request overhead: half the work.

The first PUT into a bucket uses botocore's normal way and is the template: the URL of the bucket's objects, the
signer, and its settings. Each later one differs only in key, headers and body. Everything but a plain success is
repeated in botocore's normal way, which retries, follows redirects and explains errors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from lmi_deploy.aws.session import credentials_explained

_OPERATIONS: Final = {"put_object": "PutObject", "upload_part": "UploadPart"}
_HEADERS: Final = {
    "BucketKeyEnabled": "x-amz-server-side-encryption-bucket-key-enabled",
    "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm",
    "ChecksumCRC32": "x-amz-checksum-crc32",
    "ContentLength": "Content-Length",
    "ExpectedBucketOwner": "x-amz-expected-bucket-owner",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
    "ServerSideEncryption": "x-amz-server-side-encryption",
}
_PLACES: Final = frozenset({"Body", "Bucket", "Key", "PartNumber", "UploadId"})
_KNOWN: Final = _PLACES | _HEADERS.keys()
"""Any other parameter (a condition: a second attempt must not change its outcome) uses botocore's normal way."""
_MARK: Final = "lmi_lean"


@dataclass(frozen=True, slots=True)
class SignedTemplate:
    """A successful PUT. `address` is the first part of the URL of the bucket's keys."""

    address: str
    agent: str
    context: Mapping[str, Any]
    signer: Any

    def request(self, given: Mapping[str, Any]) -> Any:
        """The same for another key, signed and ready to send."""
        from botocore.awsrequest import AWSRequest

        headers = {_HEADERS[name]: _text(value) for name, value in given.items() if name in _HEADERS}
        created = AWSRequest(
            method="PUT",
            url=f"{self.address}{quote(given['Key'], safe='/~')}{_query(given)}",
            headers={**headers, "User-Agent": self.agent},
            data=given["Body"],
        )
        created.context.update(self.context, **{_MARK: True})
        return created


class FastPutClient:
    """boto3's client, with faster `put_object` and `upload_part` where possible."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._signed = threading.local()
        self._examples: dict[str, SignedTemplate] = {}
        for operation in _OPERATIONS.values():
            client.meta.events.register_last(f"before-sign.s3.{operation}", self._note)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **given: Any) -> dict[str, Any]:
        return self._lean("put_object", given) or self._usual("put_object", given)

    def upload_part(self, **given: Any) -> dict[str, Any]:
        return self._lean("upload_part", given) or self._usual("upload_part", given)

    def _usual(self, call: str, given: Mapping[str, Any]) -> dict[str, Any]:
        body = given["Body"]
        if hasattr(body, "seek"):
            body.seek(0)
        self._signed.request = None
        response: dict[str, Any] = getattr(self._client, call)(**given)
        if given["Bucket"] not in self._examples and (signed := self._signed.request) is not None:
            self._learn(given, *signed)
        return response

    def _note(self, request: Any, request_signer: Any, **_: Any) -> None:
        if _MARK not in request.context:
            self._signed.request = (request, request_signer)

    def _learn(self, given: Mapping[str, Any], request: Any, signer: Any) -> None:
        url, key = urlsplit(request.url), quote(given["Key"], safe="/~")
        if url.path.endswith(f"/{key}"):
            address = f"{url.scheme}://{url.netloc}{url.path.removesuffix(key)}"
            agent = _text(request.headers["User-Agent"])
            self._examples[given["Bucket"]] = SignedTemplate(address, agent, dict(request.context), signer)

    def _lean(self, call: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """None if it is not one, or did not succeed."""
        from botocore.exceptions import BotoCoreError

        example = self._examples.get(given["Bucket"])
        send = _sender(self._client)
        if example is None or send is None or given.keys() - _KNOWN:
            return None
        try:
            with credentials_explained():
                response = self._sent(example.request(given), example, send, call)
        except BotoCoreError:
            return None
        return None if response is None or response.status_code != 200 else _read(response.headers)

    def _sent(self, request: Any, example: SignedTemplate, send: Callable[[Any], Any], call: str) -> Any:
        operation = _OPERATIONS[call]
        example.signer.sign(operation, request)
        for name, value in request.headers.items():
            request.headers[name] = value.encode() if isinstance(value, str) else value
        prepared = request.prepare()
        fields = self._client.meta.events.emit_until_response(f"before-send.s3.{operation}", request=prepared)
        return send(prepared) if fields[1] is None else None


def _sender(client: Any) -> Callable[[Any], Any] | None:
    """botocore's own connections, with their proxies, certificates and patience; None in a botocore that hides them."""
    session = getattr(getattr(client, "_endpoint", None), "http_session", None)
    return getattr(session, "send", None)


def _read(headers: Mapping[str, str]) -> dict[str, Any]:
    found = {"ETag": headers.get("ETag"), "ChecksumCRC32": headers.get("x-amz-checksum-crc32")}
    return {name: value for name, value in found.items() if value}


def _query(given: Mapping[str, Any]) -> str:
    if "UploadId" not in given:
        return ""
    return f"?partNumber={given['PartNumber']}&uploadId={quote(given['UploadId'], safe='-._~')}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(value).lower() if isinstance(value, bool) else str(value)
