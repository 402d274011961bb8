"""Amounts of money, formatted the same way in all output."""

from __future__ import annotations


def format_price(amount: float, currency: str) -> str:
    """`$1.41`; of another currency `EUR 1.41`."""
    sign = "$" if currency == "USD" else f"{currency} "
    return f"{sign}{amount:,.2f}"
