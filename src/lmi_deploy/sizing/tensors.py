"""Tensors as a checkpoint declares them: name, dtype, shape. No weight is ever read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_BITS: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}

_EXPERT = re.compile(r"experts\.\d+")


class CannotTell(Exception):
    """The reason why there is no verdict, in words for people. Never leaves the package: it becomes verdict
    `unknown`.
    """


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint. `bits` is set if an item's size differs from its dtype (synthesised tensors of a
    quantised model, with their scales).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bits: float | None = None
    count: int = 1
    """Tensors of this form: the experts of a layer are one entry."""

    @property
    def items(self) -> int:
        return prod(self.shape) * self.count

    @property
    def size(self) -> int:
        """Bytes in the checkpoint."""
        return int(self.items * self.item_bits / 8)

    @property
    def item_bits(self) -> float:
        if self.bits is not None:
            return self.bits
        known = _BITS.get(self.dtype)
        if known is None:
            raise CannotTell(f"tensor {self.name} has the dtype {self.dtype}, whose size lmi does not know")
        return known


def merge_experts(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The experts of a layer as one entry each; a checkpoint may have a hundred thousand tensors."""
    forms = Counter((_EXPERT.sub("experts.N", one.name), one.dtype, one.shape) for one in tensors)
    return tuple(Tensor(name, dtype, shape, count=count) for (name, dtype, shape), count in forms.items())


def total_size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.size for tensor in tensors)
