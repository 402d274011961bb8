"""The highest price of several instance types: SageMaker takes any of them, so no less may be promised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmi_deploy.domain.observed_state import Price


def dearest_type(types: Sequence[str], price: Callable[[str], Price | None]) -> tuple[str, Price | None]:
    """The type that costs most, and its price. No price if that of any type is unknown: then the type is that one;
    empty without types.
    """
    found = [(name, price(name)) for name in types]
    known = [(name, one) for name, one in found if one is not None]
    if not known or len(known) < len(found):
        return next((name for name, one in found if one is None), ""), None
    return max(known, key=lambda pair: pair[1].hourly)
