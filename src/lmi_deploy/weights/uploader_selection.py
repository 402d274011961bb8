"""Choose the uploader of weights: our own, or an external one where that was measured to be faster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.errors import Unresolvable

OWN: Final = "own"
_MANY: Final = 200
_SMALL: Final = MIB
"""Below this size the request of a file costs more than its bytes: there a program that is not Python is faster.
Above it ours is, for any size (`python -m benchmarks transfer`).
"""

EngineSetting = Literal["auto", "own", "s5cmd", "obstore"]


class UploaderChoice(NamedTuple):
    """`why` is empty if the recipe names the engine."""

    engine: str
    why: str = ""

    @property
    def title(self) -> str:
        """What people read: `own` says nothing beside the engine that serves the model."""
        return "lmi" if self.engine == OWN else self.engine


def choose_uploader(
    engine: EngineSetting | None, files: Sequence[FileEntry], *, is_local: bool, present: Collection[str]
) -> UploaderChoice:
    """`is_local`: the files are on this machine. `present`: installed external engines."""
    if engine in (None, "auto"):
        return _fastest(files, present) if is_local else UploaderChoice(OWN)
    if engine != OWN and not is_local:
        raise Unresolvable(
            f"weights.engine: {engine} sends files from the disk, but these weights are streamed",
            hint="add weights.via: snapshot, which downloads them first, or remove weights.engine",
        )
    return UploaderChoice(str(engine))


def _fastest(files: Sequence[FileEntry], present: Collection[str]) -> UploaderChoice:
    small = [entry for entry in files if entry.size < _SMALL]
    if "obstore" in present and len(small) >= _MANY and len(small) > len(files) * 0.9:
        return UploaderChoice("obstore", f"auto: {len(small)} of {len(files)} files are smaller than 1 MiB")
    return UploaderChoice(OWN)
