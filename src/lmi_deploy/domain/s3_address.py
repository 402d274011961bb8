"""s3:// addresses of models, and which of them are prefixes that lmi wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEME = "s3://"
_OURS = re.compile(r"weights/((?!\.{1,2}/)[A-Za-z0-9._-]+)/([0-9a-f]{40}-[0-9a-f]{8})/")


@dataclass(frozen=True, slots=True)
class Prefix:
    """A folder in a bucket; `path` ends with a slash, or is empty for the whole bucket."""

    bucket: str
    path: str

    @property
    def address(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.path}"

    @property
    def weights(self) -> str:
        """The name of the weights under this prefix; empty if it is not a weights prefix of lmi."""
        match = _OURS.fullmatch(self.path)
        return f"{match[1]}/{match[2]}" if match else ""

    @property
    def label(self) -> str:
        """The name of its weights: the model's own name if lmi pushed them, else bucket and last folder."""
        if self.weights:
            return self.weights.partition("/")[0]
        last = self.path.rstrip("/").rpartition("/")[2]
        return f"{self.bucket}--{last}" if last else self.bucket


def read_prefix(address: str) -> Prefix:
    """`s3://bucket/some/prefix`, with or without a slash at its end."""
    bucket, _, path = address.removeprefix(SCHEME).partition("/")
    path = path.rstrip("/")
    return Prefix(bucket, f"{path}/" if path else "")
