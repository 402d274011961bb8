"""What a failure of a log means, if no entry of the table of known failures matches it: by the vendors' own messages,
by the classes of failures, and by AWS's service models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from lmi_deploy.catalog import options, vllm_arguments
from lmi_deploy.catalog.failure_classes import FailureClass, class_of
from lmi_deploy.catalog.vendor_messages import VendorMessage, vendor_messages
from lmi_deploy.planning.failure_cause import UNKNOWN_CAUSE, Confidence
from lmi_deploy.planning.log_events import LogEvent
from lmi_deploy.planning.setting_names import settings_text

_SURE: Final = 18
"""Letters of a template from which it recognises a message by itself."""
_SURE_OF_RAISED: Final = 12
"""The same, if the exception agrees too."""
_CODE: Final = re.compile(
    r"An error occurred \((?P<code>\w+)\)(?: when calling the (?P<operation>\w+) operation)?"
)
_CODED: Final = re.compile(r"^(?:[\w.]+\.)?(?P<code>[A-Z]\w*(?:Exception|Fault|Exceeded|Throttled))\b")
_NAMES: Final = re.compile(r"(?<![\w/-])(?:--[a-z]\w*|(?:--)?[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+)(?![\w/])")
_ALIASES: Final = {
    "tensor_parallel_size": "option.tensor_parallel_degree",
    "tp_size": "option.tensor_parallel_degree",
    "tp_degree": "option.tensor_parallel_degree",
    "pipeline_parallel_size": "option.pipeline_parallel_degree",
    "max_num_seqs": "option.max_rolling_batch_size",
    "cache_dtype": "option.kv_cache_dtype",
    "quantization_method": "option.quantize",
    "model_max_length": "option.max_model_len",
    "max_position_embeddings": "option.max_model_len",
    "max_seq_len": "option.max_model_len",
    "context_length": "option.max_model_len",
    "mem_fraction_static": "option.gpu_memory_utilization",
    "num_attention_heads": "option.tensor_parallel_degree",
    "num_heads": "option.tensor_parallel_degree",
    "total_num_heads": "option.tensor_parallel_degree",
    "num_kv_heads": "option.tensor_parallel_degree",
    "num_key_value_heads": "option.tensor_parallel_degree",
    "world_size": "option.tensor_parallel_degree",
    "speculative_model": "option.speculative_config",
}
"""Names in the sources of what a recipe calls differently."""
_FEW: Final = 6
_GENERAL: Final = ("option-value", "unknown-option")
"""Classes whose remedy is the setting itself."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one message. `vendor` and `kind` are None if nothing matches."""

    vendor: VendorMessage | None
    kind: FailureClass | None
    raised: bool
    """The message has the exception of the vendor's source."""
    aws: str
    """What AWS says about the error's code."""
    settings: tuple[str, ...]

    @property
    def recognised(self) -> bool:
        enough = _SURE_OF_RAISED if self.raised else _SURE
        return self.vendor is not None and not self.vendor.warning and self.vendor.letters >= enough

    @property
    def explained(self) -> bool:
        return self.recognised or self.kind is not None or bool(self.aws)

    @property
    def harmless(self) -> bool:
        """Whether the vendor itself only warns of it."""
        return self.vendor is not None and self.vendor.warning and self.vendor.letters >= _SURE

    @property
    def cause(self) -> str:
        parts = [self.kind.cause] if self.kind else []
        if self.recognised and self.vendor:
            parts.append(_checked(self.vendor))
        if self.aws:
            parts.append(f"AWS on this error: {self.aws}")
        return " ".join(parts) or UNKNOWN_CAUSE

    @property
    def remedy(self) -> str:
        own = [each for each in self.settings if self.kind is None or each not in self.kind.settings]
        if own and (self.kind is None or self.kind.id in _GENERAL):
            named = settings_text(own[:3])
            return f"Correct {named}: the message and the condition in the source name what is allowed."
        if self.kind:
            return self.kind.remedy
        return "Read the lines around this one: they say what the program was doing."

    @property
    def source(self) -> str:
        return self.vendor.place if self.recognised and self.vendor else ""

    @property
    def confidence(self) -> Confidence:
        if self.kind and (self.recognised or self.aws):
            return "high"
        return "medium" if self.explained else "low"


def explain_event(event: LogEvent) -> Explanation:
    """By its whole message, with the lines that follow the first."""
    vendor = vendor_messages().find(event.message, frames=[path for path, _, _ in event.frames])
    words = f"{event.text} {_said(event)}".strip()
    code = _CODE.search(words) or _CODED.match(event.text)
    aws = vendor_messages().aws_error(code["code"]) if code else ""
    kind = class_of(words, event.exception)
    if kind is None and vendor is not None:
        kind = class_of(" ".join((vendor.condition, *vendor.names)))
    raised = vendor is not None and bool(event.exception) and vendor.exception == event.exception
    return Explanation(vendor, kind, raised, aws, tuple(_settings(words, vendor, kind)))


def _said(event: LogEvent) -> str:
    """The lines after the first that belong to the message and are not another list of names."""
    return " ".join(text.strip()[:300] for _, text in event.more[:6])


def _checked(vendor: VendorMessage) -> str:
    where = f"{vendor.place}"
    if not vendor.condition:
        return f"The message is from {where}."
    return f"{vendor.package} stops there if `{vendor.condition}` ({where})."


def _settings(words: str, vendor: VendorMessage | None, kind: FailureClass | None) -> Iterator[str]:
    """Those that the message and the vendor's condition name, then those of the class; each once."""
    text = (
        words if vendor is None or vendor.warning else f"{words} {vendor.condition} {' '.join(vendor.names)}"
    )
    named = (_setting(each) for each in _NAMES.findall(text))
    found = dict.fromkeys([*filter(None, named), *(kind.settings if kind else ())])
    yield from [each for each in found if each != "option.*" or len(found) == 1][:_FEW]


def _setting(name: str) -> str:
    plain = name.removeprefix("--").replace("-", "_")
    return _ALIASES.get(plain) or (f"option.{plain}" if plain in _option_names() else "")


@cache
def _option_names() -> frozenset[str]:
    known = {name for engine in options.engines() for name in options.names(engine, options.newest(engine))}
    return frozenset({*known, *vllm_arguments.argument_spans()})
