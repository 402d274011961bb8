"""What a line of a log says, without what loggers write before it: time, level, process, worker, rank."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE
from lmi_deploy.planning.log_words import ALARMING

Severity = Literal["error", "warning", "info", ""]
LONGEST: Final = 4_000
"""Characters of a line that are looked at."""

_ANSI: Final = re.compile(r"(?:\x1b|#033)\[[0-9;]*m")
_RELAYED: Final = re.compile(
    r"^.{0,160}?\bW-(?P<worker>[\w.-]*?)-?std(?:out|err)\b:?(?: MODEL_LOG -| \S+ -)? ?"
)
"""DJLServing, TorchServe and MMS write a worker's output at a level of their own, which says nothing."""
_PREFIXES: Final = tuple(
    re.compile(each)
    for each in (
        r"^\[?\d{4}-(?:\d\d|[A-Z][a-z]{2})-\d\d[ T]\d\d:\d\d:\d\d(?:[.,:]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?\]?(?: -)? {0,2}",
        r"^\[?\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\]? ?",
        r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+\[\d+\]: ",
        r'^\d{13},"?',
        r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d [AP]M (?P<level>[A-Z]+) (?:\d+ )?\[[^\]]*\]: ?",
        # docker compose: the name of the container.
        r"^(?P<process>[a-z][\w.-]{1,40}) *\| (?!$)",
        r"^\[(?P<rank>\d+,\d+)\]<std(?:out|err)>: ?",
        r"^\((?P<process>[\w<>]+[^()]*\b(?:pid|rank|ip)=[^()]*)\) ?",
        r"^\((?P<process>EngineCore(?:_\w+)?|APIServer(?:_\w+)?|Worker\w*)\) ?",
        r"^\[(?P<rank>rank ?\d+)\]: ?",
        r"^\[TensorRT-LLM\]\[(?P<level>[A-Z]+)\] ?",
        r"^\[TRT(?:-LLM)?\] \[(?P<level>[A-Z])\] ?",
        r"^(?P<level>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [^\]]*\] ?",
        r"^\[(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|[Ii]nfo|[Ww]arn|[Ee]rror) *\] ?",
        r"^(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?",
        r"^(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL):[\w.]*: ?",
        r"^(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) *(?::| -|(?= )) {0,4}",
        r"^[\w.]+ - (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - ",
        r"^\d+:\d+ +(?=[A-Z]+ )",
        r"^(?:PyProcess|PyModel|PyEnv|PyPredictor|Connection|RollingBatch|ModelServer|ModelInfo|WorkerThread|WorkLoadManager"
        r"|WorkerPool|LmiUtils|InferenceRequestHandler|ModelManager|Console|Platform)(?: -)? ",
        # lmi's own server: its event and facts stand before the reason.
        r"^(?:lmi - )?[a-z][a-z, ]{8,80}(?: [a-z_]+=\S+)* why=(?=\S)",
    )
)
_ROUTINE: Final = re.compile(r"\b(?:INFO|DEBUG|TRACE)\b")
_SEVERITIES: Final[dict[str, Severity]] = {
    **dict.fromkeys(("ERROR", "FATAL", "CRITICAL", "E", "F"), "error"),
    **dict.fromkeys(("WARN", "WARNING", "W"), "warning"),
    **dict.fromkeys(("INFO", "DEBUG", "I"), "info"),
}


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """`text` keeps its indentation; `speaker` names the process, of several in one log; `number` counts from 1."""

    number: int
    text: str
    speaker: str = ""
    severity: Severity = ""


def is_routine(raw: str) -> bool:
    """Whether a line is at level INFO or below and has no word of failure: most of a log, and left out early.
    So is what the emulator says of itself.
    """
    if raw.startswith(STAND_IN_NOTICE):
        return True
    head = raw[:160]
    worker = max(head.rfind("stdout"), head.rfind("stderr"), 0)
    if not _ROUTINE.search(raw, worker, worker + 80):
        return False
    text = raw[worker:]
    return not any(word in text for word in ALARMING)


def read_line(number: int, raw: str) -> ParsedLine:
    text = raw[:LONGEST].rstrip("\r\n")
    if "\x1b" in text or "#033[" in text:
        text = _ANSI.sub("", text)
    speakers: list[str] = []
    level: Severity = ""
    relayed = _RELAYED.match(text) if "-std" in text[:200] else None
    if relayed:
        speakers.append(f"W-{relayed['worker']}")
        text = text[relayed.end() :]
    while True:
        rest, said = _without_prefix(text, speakers)
        level = said or level
        if rest == text:
            return ParsedLine(number, text, " ".join(speakers), level)
        text = rest


def _without_prefix(text: str, speakers: list[str]) -> tuple[str, Severity]:
    """One prefix less, and the level that it names."""
    if not text or text[0] not in _FIRST:
        return text, ""
    for pattern in _PREFIXES:
        found = pattern.match(text)
        if found and found.end():
            groups = found.groupdict()
            speakers += [each for key in ("rank", "process") if (each := groups.get(key))]
            return text[found.end() :], _SEVERITIES.get((groups.get("level") or "").upper(), "")
    return text, ""


_FIRST: Final = frozenset("[(0123456789IWEFDC" + "PMRLabcdefghijklmnopqrstuvwxyzTVJASON")
