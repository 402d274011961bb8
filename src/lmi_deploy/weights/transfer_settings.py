"""The resources of this machine that a transfer may use."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import UsageRefused

RESIDENT = 100_000_000
"""Bytes that the interpreter, boto3 and the connections use before the first byte of a model."""
MIN_BUFFERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    """`memory`: bytes for the whole process; `streams`: maximum number of simultaneous parts or small files."""

    memory: int = 256_000_000
    streams: int = 16
    lanes: int = 4
    """Large files whose parts alternate: each file is hashed in order, so several keep several cores busy."""
    resident: int = RESIDENT

    def buffers(self, buffer: int) -> int:
        """How many buffers of `buffer` bytes the bound leaves room for."""
        count = (self.memory - self.resident) // buffer
        if count < MIN_BUFFERS:
            raise UsageRefused(
                f"memory: {self.memory // 1000000} MB are too small for {MIN_BUFFERS} parts of {buffer // MIB} MiB "
                f"and the {self.resident // 1000000} MB of the program",
                hint=f"allow at least {-(-(self.resident + MIN_BUFFERS * buffer) // 1_000_000)} MB",
            )
        return min(count, self.streams)
