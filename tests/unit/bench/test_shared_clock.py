"""A machine finds how far its clock differs from S3's, from responses that name only their second."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.bench.shared_clock import ClockOffset, narrowed

TRIP = 0.004


def measured(offset: float, *, looks: int = 12, trip: float = TRIP, now: float = 1000.3) -> ClockOffset:
    """As a machine measures it: it looks when a second may begin on S3's clock."""
    found: ClockOffset | None = None
    for _ in range(looks):
        if found is not None:
            now = found.next_look(now)
        served = now + trip / 2 + offset
        found = narrowed(found, second=math.floor(served), sent=now, received=now + trip)
        now += trip
    assert found is not None
    return found


@given(st.floats(-5000, 5000))
def test_offset_is_found_to_some_milliseconds(offset: float) -> None:
    found = measured(offset)
    assert found.low - 1e-6 <= offset <= found.high + 1e-6
    assert found.uncertainty <= 2 * TRIP


def test_first_response_says_a_second_at_most() -> None:
    found = narrowed(None, second=100, sent=99.0, received=99.1)
    assert (found.low, found.high) == (pytest.approx(0.9), pytest.approx(2.0))
    assert not found.is_good_enough


def test_servers_that_differ_give_the_range_between_them() -> None:
    known = ClockOffset(low=0.30, high=0.31)
    found = narrowed(known, second=100, sent=99.6, received=99.605)  # ahead by 0.395 at least
    assert (found.low, found.high) == (pytest.approx(0.31), pytest.approx(0.395))
    assert found.seconds == pytest.approx(0.3525)
