"""A moto service's state as bytes: what came with moto is named, not repeated (AWS's own policies are 4 MB)."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

_DERIVED: Final = ("aws_managed_policies", "account_summary")
"""Of an IAM backend: made with it, and of it."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, held: object) -> tuple[str, str, int] | None:
        """An AWS policy that something holds: which one, and what is not in moto's list of it."""
        return (held.arn, held.id, held.attachment_count) if is_of_aws(held) else None  # type: ignore[attr-defined]


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, known: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(content))
        self._known = known

    def persistent_load(self, named: tuple[str, str, int]) -> object:
        arn, ident, attached = named
        policy = self._known[arn]
        policy.id, policy.attachment_count = ident, attached
        return policy


def dumped(backend: Any) -> bytes:
    """What a service knows of one region, without what a fresh one knows, too."""
    state = {key: value for key, value in backend.__dict__.items() if key not in _DERIVED}
    if "managed_policies" in state:
        policies = state["managed_policies"].items()
        state["managed_policies"] = {arn: policy for arn, policy in policies if not is_of_aws(policy)}
    made = io.BytesIO()
    _Pickler(made).dump(state)
    return made.getvalue()


def restore(backend: Any, content: bytes) -> None:
    """Into a fresh backend. Content is what this program wrote, into a folder that its user gave it."""
    known = getattr(backend, "managed_policies", {})
    state = _Unpickler(content, known).load()
    if "managed_policies" in state:
        state["managed_policies"] = {**known, **state["managed_policies"]}
    backend.__dict__.update(state)


def is_of_aws(held: object) -> bool:
    from moto.iam.models import AWSManagedPolicy

    return isinstance(held, AWSManagedPolicy)
