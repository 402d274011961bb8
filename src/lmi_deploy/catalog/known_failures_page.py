"""The page of known failures, generated from the table that `lmi` itself uses."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog.known_failures import Failure, failures, source

_HEAD = """\
# Known failures

This page is generated from `tools/failures.json`: {count} failures, and the log lines, failure reasons and error
messages by which `lmi` recognizes them. If a deployment fails and its log contains one of them, `lmi up`, `lmi
status` and `lmi logs` name it. If several match, the first that is a cause counts: failures after a restart may follow
from it. An entry marked *wrapper* only says that something failed; the cause is in other lines.

Source: {source} ({date}).
"""
_PLACES = {
    "container_log": "Output of servers and handlers",
    "hub": "The Hugging Face Hub",
    "s3": "Amazon S3",
    "failure_reason": "Failure reasons of endpoints",
    "client_error": "Errors of SageMaker calls",
    "invoke_error": "Errors of inference requests",
}


def failures_page() -> str:
    """docs/reference/failures.md, complete."""
    origin, date = source()
    parts = [_HEAD.format(count=len(failures()), source=origin, date=date)]
    for place, heading in _PLACES.items():
        parts.append(f"## {heading}\n")
        parts += ["\n".join(_entry(failure)) for failure in failures() if failure.where == place]
    return "\n".join(parts)


def _entry(failure: Failure) -> Iterator[str]:
    only = f" ({', '.join(filter(None, (failure.engine, failure.versions)))})" if failure.engine else ""
    yield f"### {failure.id}\n"
    yield f"{'*Wrapper.* ' if failure.level == 'wrapper' else ''}{_plain(failure.cause)}{only}\n"
    yield f"**What to do:** {_plain(failure.remedy)}\n"
    facts = [f"known by {', '.join(f'`{each.literal.strip()}`' for each in failure.patterns)}"] * bool(
        failure.patterns
    )
    facts += [f"{key}: {value}" for key, value in failure.given.items()]
    facts += [f"concerns {', '.join(f'`{name}`' for name in failure.settings)}"] * bool(failure.settings)
    yield f"<sub>{'; '.join([*facts, f'seen: {failure.source}'])}</sub>\n"


def _plain(text: str) -> str:
    """Blanks to fill as they would be read."""
    return text.replace("{", "<").replace("}", ">").replace("<", "&lt;").replace(">", "&gt;")
