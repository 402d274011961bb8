"""A call that ends, whatever it calls: a name server that does not answer obeys no time-out of a client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from lmi_deploy.errors import Overdue

T = TypeVar("T")


def within(seconds: float, what: str, call: Callable[[], T]) -> T:
    """The result or the exception of `call`; Overdue after `seconds`: then its thread is left behind, as a daemon."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as failure:  # noqa: BLE001 (raised again, in the caller's thread)
            failures.append(failure)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not results:
        raise Overdue(
            f"{what}: no response within {seconds:g} s",
            hint="check the network, HTTPS_PROXY and NO_PROXY; --offline skips what needs the network",
        )
    return results[0]
