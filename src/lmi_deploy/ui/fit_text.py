"""The sum of `lmi fit` as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import counted

_WIDTH = 30


def fit_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Line by line the memory of one device, the verdict, the limits, and the remedies."""
    where = f"{fields['devices']} x {fields['device']}" if fields["device"] else ""
    if fields["instance"]:
        where = f"{fields['instance']} ({where})"
    degree = f", degree {fields['degree']}" if fields["degree"] else ""
    yield f"{fields['model']}, {fields['engine']}" + (f", on {where}{degree}" if where else "")
    if fields["budget"]:
        yield from _sum(fields)
    yield f"{fields['verdict']}: {fields['reason']}"
    if fields["context"]:
        sequences, context = counted(fields["sequences"], "sequence"), fields["context"]
        yield f"the KV cache has room for {fields['kv_tokens']} tokens in all:"
        yield f"  - longest context, for {sequences}: {fields['max_context']} tokens"
        yield f"  - most sequences, of {context} tokens each: {fields['max_sequences']}"
    if fields["remedies"]:
        tight = fields["verdict"] == "tight"
        yield f"changes that would {'leave more memory free' if tight else 'make it fit'}, cheapest first:"
        yield from (f"  - {remedy['what']}" for remedy in fields["remedies"])
    yield from (f"note: {note}" for note in fields["notes"])


def _sum(fields: Mapping[str, Any]) -> Iterator[str]:
    yield _line("usable memory of one device", fields["usable"])
    if fields["budget"] != fields["usable"]:
        yield _line("available to the engine", fields["budget"])
    for name, size in fields["parts"].items():
        if name != "kv_cache":
            yield _line(f"- {name}", size)
    if fields["context"]:
        yield _line("left for the KV cache", fields["left"])
        yield _line(
            f"{counted(fields['sequences'], 'sequence')} of {fields['context']} tokens", fields["needed"]
        )
    if fields["reserve"]:
        yield _line("not available to the engine", fields["outside"])
        yield _line("- context, NCCL, graphs: about", fields["reserve"])


def _line(what: str, size: int) -> str:
    return f"  {what:<{_WIDTH}} {size / GIB:>9.2f} GiB"
