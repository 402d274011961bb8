"""Bodies that S3's clients send in signed chunks (`aws-chunked`): each chunk's signature is over the one before it.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html, and sigv4-streaming-trailers.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SIGNED: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_END: Final = b"\r\n"


class BadChunks(Exception):
    """The body is not the signed one, or not in chunks."""


@dataclass(frozen=True, slots=True)
class Seed:
    """The input of the first chunk's signature: the request's own signature."""

    key: bytes
    moment: str
    scope: str
    signature: str

    def follow(self, before: str, content: bytes, *, kind: str = "PAYLOAD") -> str:
        """The signature of a chunk, or of the trailer, that follows the one with the given signature."""
        digest = hashlib.sha256(content).hexdigest()
        empty = (_EMPTY,) if kind == "PAYLOAD" else ()
        lines = (f"AWS4-HMAC-SHA256-{kind}", self.moment, self.scope, before, *empty, digest)
        return hmac.new(self.key, "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def require_signed(body: bytes, seed: Seed, *, has_trailer: bool) -> None:
    """BadChunks unless every chunk, and the trailer, is signed by the key."""
    before, end = seed.signature, 0
    for content, signature, end in _chunks(body):  # noqa: B007
        expected = seed.follow(before, content)
        if not hmac.compare_digest(expected, signature):
            raise BadChunks
        before = expected
    if has_trailer:
        _require_trailer(body[end:], seed, before)


def _chunks(body: bytes) -> Iterator[tuple[bytes, str, int]]:
    """Content, signature and end of each, to the empty one that is the last."""
    at = 0
    while True:
        head, found, _ = body[at : at + 1024].partition(_END)
        size, _, extension = head.partition(b";")
        name, _, signature = extension.partition(b"=")
        try:
            length = int(size, 16)
        except ValueError as exc:
            raise BadChunks from exc
        start = at + len(head) + len(_END)
        if not found or name != b"chunk-signature" or length < 0 or start + length > len(body):
            raise BadChunks
        at = start + length + (len(_END) if length else 0)
        yield body[start : start + length], signature.decode("ascii", "replace"), at
        if length == 0:
            return


def _require_trailer(rest: bytes, seed: Seed, before: str) -> None:
    lines = [line for line in rest.split(_END) if line]
    signed = [line for line in lines if not line.startswith(b"x-amz-trailer-signature:")]
    given = [line.partition(b":")[2] for line in lines if line not in signed]
    content = b"".join(line.strip() + b"\n" for line in signed)
    expected = seed.follow(before, content, kind="TRAILER")
    if len(given) != 1 or not hmac.compare_digest(expected.encode(), given[0].strip()):
        raise BadChunks
