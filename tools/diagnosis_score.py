"""How well failures are diagnosed whose entries are left out of the table.

`python -m tools.diagnosis_score [train|left-out]` takes the entries of that part out of the table of known failures,
composes logs around its lines (`composed`), and judges what `find_causes` makes of them. `fresh` are excerpts of logs
in public issue threads (`diagnosis_fresh.json`), which nobody had read while the rules were written:

- the cause line is right if the first cause's evidence is one of the entry's lines;
- the cause is explained if it is right and a class of failures, a vendor's message or AWS's model explains it;
- the settings agree if one that the cause names is one of the entry's (of those that have any).

Wrappers are no causes; entries that match by facts alone have no line. Both are left out of the count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lmi_deploy.catalog.known_failures import read_failures
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.planning.failure_cause import Cause
from lmi_deploy.planning.log_diagnosis import DiagnosisContext
from tools.diagnosis_split import PARTS, Entry, failures, noise
from tools.generate_failures import SAMPLES, table

FIRST_LOOK: Final = Path(__file__).with_name("diagnosis_first_look.json")
FRESH: Final = Path(__file__).with_name("diagnosis_fresh.json")
_WORKER: Final = "[INFO ] PyProcess - W-196-model-stdout: "
_BEFORE: Final = (
    "[INFO ] ModelServer - Starting model server ...",
    "[INFO ] LmiUtils - Detected mpi_mode: false, rolling_batch: disable, tensor_parallel_degree: 1",
    "[WARN ] PyProcess - W-196-model-stderr: FutureWarning: `torch_dtype` is deprecated! Use `dtype` instead!",
    "[INFO ] PyProcess - W-196-model-stdout: INFO 10-21 11:22:33 [__init__.py:216] Detected platform cuda.",
    "[INFO ] PyProcess - W-196-model-stdout: INFO 10-21 11:22:35 [model.py:547] Architecture: LlamaForCausalLM",
)
_AFTER: Final = (
    "[ERROR] ModelServer - Failed register workflow",
    "java.util.concurrent.CompletionException: ai.djl.engine.EngineException: Failed to start worker",
    "\tat java.base/java.util.concurrent.CompletableFuture.encodeThrowable(CompletableFuture.java:315)",
    "Caused by: ai.djl.engine.EngineException: Failed to start worker",
    "\tat ai.djl.python.engine.PyProcess.startPythonProcess(PyProcess.java:171)",
    "[INFO ] PyProcess - retry: 1, Restart python process ...",
    "[INFO ] PyProcess - W-197-model-stdout: ValueError: Free memory on device (3/21 GiB) is less than desired",
)
_FRAMES: Final = (
    "Traceback (most recent call last):",
    '  File "/usr/local/lib/python3.12/dist-packages/djl_python/service_loader.py", line 30, in invoke_handler',
    "    return getattr(self.module, function_name)(inputs)",
    '  File "/usr/local/lib/python3.12/dist-packages/some_package/loader.py", line 210, in {function}',
    "    raise",
)


@dataclass(frozen=True, slots=True)
class Judged:
    entry: Entry
    found: Cause | None
    right: bool
    explained: bool
    settings: bool | None
    """None: the entry has no settings."""


def composed(entry: Entry) -> list[str]:
    """A log with the entry's lines: as a worker's traceback if the first one is an exception of Python, else as they
    are; between a normal start and the wrappers that follow a failure. Errors of calls and endpoints are alone."""
    if entry["where"] in ("failure_reason", "client_error", "invoke_error"):
        return [*entry["lines"]]
    lines = [*_BEFORE]
    for line in entry["lines"]:
        if line.split(":")[0].rpartition(".")[2].endswith(("Error", "Exception")) and not line.startswith(
            ("java", "ai.")
        ):
            function = entry.get("frames", "load").split("|")[0]
            lines += [_WORKER + frame.format(function=function) for frame in _FRAMES]
            lines.append(_WORKER + line)
        else:
            lines.append(_WORKER + line)
    return [*lines, *_AFTER]


def judge(part: str) -> Iterator[Judged]:
    entries = [each for each in failures(part) if each.get("level") != "wrapper" and each["lines"]]
    around = _without(part, failures_too=True)
    return (_judged(entry, around) for entry in entries)


def _judged(entry: Entry, around: DiagnosisContext) -> Judged:
    causes = [each for each in find_causes(composed(entry), around) if not each.wrapper]
    found = causes[0] if causes else None
    right = found is not None and any(line.strip() in found.evidence for line in entry["lines"])
    own = {_plain(each) for each in entry.get("settings", ())}
    agree = bool(own & {_plain(each) for each in found.settings}) if found and own else None
    return Judged(entry, found, right, bool(right and found and found.explained), agree)


def _plain(setting: str) -> str:
    return setting.rpartition(".")[2].replace("image_uri", "image")


def fresh() -> Iterator[tuple[str, Cause | None, bool]]:
    """Each log of FRESH: its issue, the cause that is found with the whole table, and whether its line is right."""
    for row in json.loads(FRESH.read_text(encoding="utf-8"))["rows"]:
        causes = [each for each in find_causes(row["lines"]) if not each.wrapper]
        found = causes[0] if causes else None
        right = found is not None and any(words in found.evidence for words in row["cause"])
        yield row["source"], found, right


def mistaken_noise(part: str) -> list[tuple[str, Cause]]:
    """Harmless lines of that part that are taken for a cause, if the table does not know them."""
    around = _without(part, failures_too=False)
    return [(line, found[0]) for line in noise(part) if (found := find_causes([line], around))]


def _without(part: str, *, failures_too: bool) -> DiagnosisContext:
    """The table as it is for someone who never saw the part."""
    ids = {each["id"] for each in failures(part)} if failures_too else set[str]()
    written, shipped, unseen = json.loads(SAMPLES.read_text(encoding="utf-8")), table(), set(noise(part))
    pairs = zip(written["noise"], shipped["noise"], strict=True)
    kept = {
        "failures": [each for each in shipped["failures"] if each["id"] not in ids],
        "noise": [pattern for each, pattern in pairs if each["line"] not in unseen],
    }
    return DiagnosisContext(known=read_failures(kept))


@cache
def scores() -> dict[str, dict[str, int]]:
    return {part: _score(part) for part in PARTS}


def _score(part: str) -> dict[str, int]:
    judged = [*judge(part)]
    with_settings = [each for each in judged if each.settings is not None]
    return {
        "failures": len(judged),
        "right": sum(each.right for each in judged),
        "explained": sum(each.explained for each in judged),
        "with_settings": len(with_settings),
        "settings": sum(bool(each.settings) for each in with_settings),
        "noise": len(noise(part)),
        "mistaken": len(mistaken_noise(part)),
    }


def fresh_score() -> dict[str, int]:
    judged = [*fresh()]
    explained = sum(bool(right and found and found.explained) for _, found, right in judged)
    return {"failures": len(judged), "right": sum(right for *_, right in judged), "explained": explained}


def main(parts: Sequence[str]) -> int:
    if not parts or "fresh" in parts:
        print(f"== fresh: {fresh_score()}")
        for source, found, right in fresh():
            if not (right and found and found.explained):
                print(f"{source}: right {right}\n{_shown(found)}")
    for part in [each for each in parts if each != "fresh"] or ([] if parts else PARTS):
        print(f"== {part}: {_score(part)}")
        for each in judge(part):
            if not (each.right and each.explained and each.settings in (True, None)):
                print(
                    f"{each.entry['id']}: right {each.right}, explained {each.explained}, settings {each.settings}"
                )
                print(f"    {each.entry['lines'][0][:150]}")
                print(_shown(each.found))
        for line, found in mistaken_noise(part):
            print(f"noise: {line[:120]}\n{_shown(found)}")
    return 0


def _shown(found: Cause | None) -> str:
    if found is None:
        return "    -> nothing"
    return f"    -> {found.line} [{found.id}] {found.evidence[:110]}\n       {found.cause[:140]} {found.settings}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
