"""A plan as Markdown, for a comment of a pull request and the summary of a CI job.

Everything that comes from a recipe, the Hub or AWS is untrusted, so it is written in code spans (CommonMark 0.31,
"Code spans": no markup, HTML or link inside; GitHub and GitLab look for mentions and references outside of them only).
GitHub refuses a comment of more than 65,536 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.errors import LmiError, RecipeError
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.ui.plain_text import plain
from lmi_deploy.ui.plan_text import figure_texts

LIMIT: Final = 65_536 - 1_000
"""Characters; a CI script may add lines of its own, such as the mark by which it finds its comment again."""
_VALUE: Final = 500
_TEXT: Final = 2_000
_PLAIN_WORD: Final = re.compile(r"\(?([A-Za-z]+([-'][A-Za-z]+)*|\$?[0-9]+(\.[0-9]+)?%?)[,.;:)?]*")
_QUOTED: Final = re.compile(r"(\(?)`([^`]+)`([,.;:)]*)")
"""A command, as the messages of `lmi` write it."""
_TOKEN: Final = re.compile(r"\(?`[^`]+`[,.;:)]*(?=\s|$)|\S+")
_SECTIONS: Final = ("Create", "Change", "Check", "Destroy")
_SECTION_OF_PHASE: Final = {
    Phase.WAIT: "Check",
    Phase.PROBE: "Check",
    Phase.SWITCH: "Change",
    Phase.CONFIGURE: "Change",
    Phase.STOP: "Destroy",
    Phase.CLEANUP: "Destroy",
}
_SECTION_OF_VERB: Final = {"Update": "Change", "Remove": "Destroy", "Untag": "Destroy", "Delete": "Destroy"}


def plan_markdown(
    plan: Plan, estimate: Estimate, notices: Sequence[str], digest: str, *, refusal: LmiError | None = None
) -> str:
    """The price and the digest come first: a plan too long for a comment keeps them. `refusal`: of `lmi up`."""
    count = counted(len(plan.actions), "action") if plan.actions else "nothing to do"
    lines = [f"### {code(plan.deployment)}: {count}", ""]
    lines += [f"- {name}: {code(value)}" for name, value in figure_texts(estimate)]
    lines += [f"- plan: {code(digest)}", ""]
    lines += ["**`lmi up` refuses it**", "", *_reason(refusal)] if refusal else []
    lines += _section("Warnings", [words(text) for text in notices])
    for section in _SECTIONS:
        lines += _section(section, [code(a.title) for a in plan.actions if section_of(a) == section])
    changes = [change for change in plan.changes if change.before]
    lines += _section("Settings", [f"{code(c.field)}: {code(c.before)} → {_after(c.after)}" for c in changes])
    return _within_limit(lines)


def failure_markdown(error: LmiError) -> str:
    """Why there is no plan."""
    return _within_limit(["### No plan", "", *_reason(error)])


def _reason(error: LmiError) -> Iterator[str]:
    yield from (words(error.message), "")
    if isinstance(error, RecipeError):
        yield from _section("Mistakes", [words(str(problem)) for problem in error.problems])
    else:  # the details of a RecipeError are its mistakes
        yield from _section("Details", [words(text) for text in error.details])
    yield from [words(f"Next: {error.hint}"), ""] if error.hint else []


def section_of(action: ActionBase) -> str:
    """What it does to its object: by its verb if that is clear, else by its phase."""
    verb = re.match(r"[A-Z][a-z]*", action.kind)
    by_verb = _SECTION_OF_VERB.get(verb[0], "") if verb else ""
    return by_verb or _SECTION_OF_PHASE.get(action.phase, "Create")


def code(text: str, most: int = _VALUE) -> str:
    """A code span that holds exactly this text in one line."""
    text = " ".join(plain(mask_urls(text)).split())
    if len(text) > most:
        text = f"{text[:most]}..."
    if not text:
        return "(none)"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def words(text: str) -> str:
    """Prose: words and numbers as they are, everything else in code spans."""
    parts: list[str] = []
    foreign: list[str] = []
    for word in _TOKEN.findall(" ".join(plain(mask_urls(text)).split())[:_TEXT]):
        quoted = _QUOTED.fullmatch(word)
        if foreign and (quoted or _PLAIN_WORD.fullmatch(word)):
            parts.append(code(" ".join(foreign), _TEXT))
            foreign = []
        if quoted:
            parts.append(f"{quoted[1]}{code(quoted[2], _TEXT)}{quoted[3]}")
        elif _PLAIN_WORD.fullmatch(word):
            parts.append(word)
        else:
            foreign.append(word)
    return " ".join([*parts, code(" ".join(foreign), _TEXT)] if foreign else parts)


def _after(value: str) -> str:
    return code(value) if value else "(none)"


def _section(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"**{title}**"
        yield ""
        yield from (f"- {item}" for item in items)
        yield ""


def _within_limit(lines: Iterable[str]) -> str:
    kept: list[str] = []
    length = left_out = 0
    for line in lines:
        if left_out or length + len(line) + 1 > LIMIT - 100:
            left_out += bool(line)
        else:
            kept.append(line)
            length += len(line) + 1
    while kept and not kept[-1]:
        kept.pop()
    if left_out:
        kept += ["", f"{counted(left_out, 'more line')}: see the log of this job."]
    return "\n".join(kept) + "\n"
