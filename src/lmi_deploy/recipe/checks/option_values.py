"""The value of an option of vLLM: type, range and allowed words, as the vLLM of the shipped image declares them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.options import SERVER_KEYS
from lmi_deploy.catalog.server_version import Server
from lmi_deploy.catalog.vllm_arguments import ArgumentRule
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.recipe.yaml.tree import quoted

Mistake = tuple[str, str]
"""What is wrong with a value, and what to write instead; nothing where that is not known."""

ALIASES: Final = {
    "quantize": "quantization",
    "max_rolling_batch_size": "max_num_seqs",
    "max_rolling_batch_prefill_tokens": "max_num_batched_tokens",
    "cpu_offload_gb_per_gpu": "cpu_offload_gb",
    "pipeline_parallel_degree": "pipeline_parallel_size",
}
"""DJLServing's own names of arguments (properties_manager/vllm_rb_properties.py)."""
_READ_BY_DJL: Final = ("dtype", "task", "device", "max_loras")
"""DJLServing checks these itself; their words are in the table of options."""
_SHOWN: Final = 12
"""Words of a long list that a message names."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmMgGtT])")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_FLAGS: Final = {"yes": "true", "on": "true", "1": "true", "y": "true", "t": "true"} | dict.fromkeys(
    ("no", "off", "0", "n", "f"), "false"
)
_OTHER_NAMES: Final = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "half": "float16"}
_ANY_CASE: Final = ("quantization", "tokenizer_mode")
_SUFFIXED_NUMBER: Final = re.compile(r"\b[0-9]+(?:\.[0-9]+)?[kKmMgGtT]\b")


def rule_of(name: str, image: int) -> ArgumentRule | None:
    """None if the value of the option is not vLLM's to judge."""
    return None if name in _READ_BY_DJL else vllm_arguments.argument(ALIASES.get(name, name), image)


def value_mistake(name: str, value: str, server: Server | None) -> Mistake | None:
    """None: the value is right, or lmi cannot tell."""
    image = image_of(server)
    rule = rule_of(name, image)
    if rule is None or (value.strip() in ("", "None") and rule.kind not in ("flag", "text")):
        return None
    return text_mistake(name, value, rule, f"vLLM {vllm_arguments.version(image)}")


def text_mistake(name: str, value: str, rule: ArgumentRule, server: str) -> Mistake | None:
    """The same for a rule; `server` is what the message names: `vLLM 0.26.0`."""
    if rule.kind not in ("text", "json", "list") and "\n" in value:
        return f"{quoted(value)} contains a line break", _nearest_text(value.split(), rule)
    match rule.kind:
        case "flag":
            return _flag(value)
        case "int" | "size" | "float":
            return _number(name, value, rule)
        case "choice" | "name":
            return _choice(name, value, rule, server)
        case "json":
            return _json(name, value)
        case "pairs":
            return _pairs(value)
        case "text" | "list" | "any":
            return None


def property_mistakes(pairs: Pairs) -> Iterator[tuple[str, Mistake]]:
    """The same for the server's own keys, which Java reads: other keys go to the handler unread."""
    given = dict(pairs)
    for name, value in pairs:
        rule = SERVER_KEYS.get(name.removeprefix("cpu.").removeprefix("nc."))
        if rule is not None and rule.kind == "int" and "_" in value:
            yield name, (f"{quoted(value)} is not a whole number", f"write {value.replace('_', '')}")
        elif rule is not None and rule.kind in ("int", "flag"):
            mistake = _number(name, value, rule) if rule.kind == "int" else _flag(value)
            if mistake:
                yield name, mistake
    for prefix in ("", "gpu.", "cpu.", "nc."):
        low, high = given.get(f"{prefix}minWorkers", ""), given.get(f"{prefix}maxWorkers", "")
        if low.isdigit() and high.isdigit() and int(low) > int(high):
            yield f"{prefix}minWorkers", (f"{low} is more than {prefix}maxWorkers, {high}", f"write {high}")


def image_of(server: Server | None) -> int:
    """The LMI image of a server; the newest known one if it is not known."""
    return vllm_arguments.images()[-1] if server is None or server.image is None else server.image


def _flag(value: str) -> Mistake | None:
    if value.strip().lower() in ("true", "false"):
        return None
    better = _FLAGS.get(value.strip().lower())
    return f"{quoted(value)} is not true or false", f"write {better}" if better else ""


def _number(name: str, value: str, rule: ArgumentRule) -> Mistake | None:
    if name == "max_model_len" and value.strip() in ("auto", "-1"):
        return None
    number = number_of(value, rule.kind)
    if number is None:
        kind = "a number" if rule.kind == "float" else "a whole number"
        return f"{quoted(value)} is not {kind}", _nearest_text(re.split(r"[\s;]+", value), rule)
    if not rule.holds(number):
        return f"{value.strip()} is out of range: {rule.range}", _nearest_number(number, rule)
    return None


def number_of(value: str, kind: str) -> float | None:
    """The number that the server reads; None if it refuses the text."""
    text = value.strip()
    if kind == "float":
        try:
            number = float(text)
        except ValueError:
            return None
        return number if abs(number) < float("inf") else None
    if _INTEGER.fullmatch(text):
        return int(text)
    found = _SIZE.fullmatch(text) if kind == "size" else None
    if found is None:
        return None
    base = 1000 if found[2].islower() else 1024
    return int(float(found[1]) * base ** _POWERS[found[2].lower()])


def _nearest_text(parts: Sequence[str], rule: ArgumentRule) -> str:
    """The number that was probably meant: `8192.0`, `8,192`, `8192 tokens`."""
    for part in parts:
        text = part.replace(",", "").replace("'", "").removesuffix("%")
        number = number_of(text, "float")
        if rule.kind != "float" and number is not None and number == int(number):
            number = int(number)
        elif rule.kind != "float":
            number = number_of(text, rule.kind)
        if number is not None and rule.holds(number):
            return f"write {number:g}" if rule.kind == "float" else f"write {int(number)}"
    return f"write a number, {rule.range}" if rule.range else ""


def _nearest_number(number: float, rule: ArgumentRule) -> str:
    if rule.gt == 0 and 1 in (rule.le, rule.lt) and 10 <= number <= 100:
        return f"write {number / 100:g}: it is a fraction, not a percentage"
    limit = next(
        (limit for limit in (rule.le, rule.ge) if limit is not None and not _beyond(number, limit, rule)),
        None,
    )
    return f"write {limit:g}" if limit is not None else ""


def _beyond(number: float, limit: float, rule: ArgumentRule) -> bool:
    """Whether the limit is the other end of the range."""
    return number <= limit if limit == rule.le else number >= limit


def _choice(name: str, value: str, rule: ArgumentRule, server: str) -> Mistake | None:
    text = value.strip()
    shape = (
        text.upper()
        if rule.kind == "name"
        else text.lower()
        if ALIASES.get(name, name) in _ANY_CASE
        else text
    )
    if (
        shape in rule.values
        or rule.is_open
        or (rule.kind == "name" and (text.isdigit() or text.lower() == "auto"))
    ):
        return None
    near = nearest_word(text, rule.values)
    listed = ", ".join(rule.values[:_SHOWN])
    more = len(rule.values) - _SHOWN
    if near and near not in rule.values[:_SHOWN]:
        more, listed = more - 1, f"{listed}, {near}"
    what = f"{quoted(value)} is not one of {listed}{f' and {more} others' if more > 0 else ''} ({server})"
    return what, f"did you mean {near}?" if near else ""


def nearest_word(text: str, words: Sequence[str]) -> str:
    """The allowed word that is most like `text`; empty if none is."""
    lowered = {word.lower(): word for word in words}
    text = _OTHER_NAMES.get(text.lower(), text)
    close = difflib.get_close_matches(text.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else ""


def _json(name: str, value: str) -> Mistake | None:
    if name == "compilation_config" and value.strip() in ("0", "1", "2", "3"):
        return None  # older versions take the level alone
    mistake = json_mistake(without_suffixes(value))
    if not mistake:
        return None
    return mistake, 'such as \'{"key": "value"}\', with double quotes'


def json_mistake(text: str) -> str:
    """Why a text is no JSON object; empty if it is one."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as reason:
        return f"is not JSON: {reason.msg} at its line {reason.lineno}, column {reason.colno}"
    except RecursionError:
        return "is not JSON: it is nested too deeply"
    return "" if isinstance(value, dict) else f"is JSON, but not an object: {quoted(text)}"


def json_offset(text: str) -> int:
    """Where a text stops to be JSON; 0 if it is JSON, or nested too deeply."""
    try:
        json.loads(without_suffixes(text))
    except json.JSONDecodeError as reason:
        return reason.pos
    except RecursionError:
        pass
    return 0


def without_suffixes(text: str) -> str:
    """vLLM reads `80m` as a number in JSON; a number of the same length keeps the columns of an error."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    parts[::2] = [_SUFFIXED_NUMBER.sub(lambda found: "1" * len(found[0]), part) for part in parts[::2]]
    return "".join(parts)


def _pairs(value: str) -> Mistake | None:
    for pair in value.split(","):
        key, found, number = pair.partition("=")
        if not found or not key.strip() or not number.strip().isdigit():
            return f"{quoted(pair.strip())} is not a name and a number", "such as image=2,video=1"
    return None
