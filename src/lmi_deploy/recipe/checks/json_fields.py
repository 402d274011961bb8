"""The fields of an option that contains JSON: names, types and allowed values, as the vLLM of the shipped image
declares them in its config classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.server_version import Server
from lmi_deploy.catalog.vllm_arguments import ArgumentRule
from lmi_deploy.recipe.checks.option_values import Mistake, image_of, text_mistake, without_suffixes
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.recipe.yaml.tree import quoted

_ROPE: Final = {
    **dict.fromkeys(
        ("rope_type", "type"),
        ArgumentRule(
            kind="choice",
            values=(
                *(
                    "default",
                    "linear",
                    "ntk",
                    "dynamic",
                    "yarn",
                    "longrope",
                    "llama3",
                    "mllama4",
                    "xdrope",
                    "su",
                ),
                *(
                    "mrope",
                    "proportional",
                    "deepseek_yarn",
                    "deepseek_llama_scaling",
                    "openpangu",
                    "telechat3-yarn",
                ),
            ),
        ),
    ),
    "factor": ArgumentRule(kind="float", ge=1),
    "original_max_position_embeddings": ArgumentRule(kind="int", ge=1),
}
_MODALITY: Final = ArgumentRule(kind="int", ge=0)
"""How many of any modality a prompt may have, or a table with its sizes."""
_COUNT: Final = {"count": ArgumentRule(kind="int", ge=0)}
_SIZE: Final = ArgumentRule(kind="int", gt=0)
_IMAGE: Final = {**_COUNT, "width": _SIZE, "height": _SIZE}
_OPEN: Final[Mapping[str, Mapping[str, ArgumentRule]]] = {
    "rope_scaling": _ROPE,
    "hf_overrides.rope_scaling": _ROPE,
    "hf_overrides.rope_parameters": _ROPE,
    "hf_overrides": {
        "architectures": ArgumentRule(kind="list"),
        "max_position_embeddings": ArgumentRule(kind="int", ge=1),
        "rope_scaling": ArgumentRule(kind="json"),
        "rope_parameters": ArgumentRule(kind="json"),
    },
    "override_generation_config": {
        "temperature": ArgumentRule(kind="float", ge=0),
        "top_p": ArgumentRule(kind="float", gt=0, le=1),
        "top_k": ArgumentRule(kind="int", ge=-1),
        "min_p": ArgumentRule(kind="float", ge=0, le=1),
        "repetition_penalty": ArgumentRule(kind="float", gt=0),
        "max_new_tokens": ArgumentRule(kind="int", ge=1),
    },
    "limit_mm_per_prompt.image": _IMAGE,
    "limit_mm_per_prompt.video": {**_IMAGE, "num_frames": _SIZE},
    "limit_mm_per_prompt.audio": {**_COUNT, "length": _SIZE},
}
"""Tables that take other names, too: vllm 0.26.0, layers/rotary_embedding/__init__.py `get_rope`; config/model.py
`get_diff_sampling_param`; sampling_params.py `_verify_args`; config/multimodal.py `_validate_limit_per_prompt`."""
_TOKEN: Final = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"|[][{}]')
"""A key, another text, or a bracket."""
_YES_OR_NO: Final = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0")
"""Words that pydantic takes for true and false."""


FieldMistake = tuple[str, str, str]
"""The field, with the tables that it is in; what is wrong with it, and what to write instead."""


def field_mistakes(name: str, text: str, server: Server | None) -> Iterator[FieldMistake]:
    """Of an option whose value is a JSON object; nothing for any other value."""
    try:
        table = json.loads(without_suffixes(text))
    except (ValueError, RecursionError):
        return
    if isinstance(table, dict):
        yield from _of_table(name, table, image_of(server))


def field_offset(text: str, field: str) -> int:
    """The offset of a field in the JSON text, by its name with the tables that it is in; 0 if it is not there."""
    path: list[str] = []
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[":
                path.append(token[0])
            case "}" | "]":
                path.pop()
            case _ if path and token["key"]:
                path[-1] = json.loads(token["key"])
                if ".".join(path) == field:
                    return token.start()
            case _:
                pass
    return 0


def _of_table(path: str, table: Mapping[str, Any], image: int) -> Iterator[FieldMistake]:
    """`path` is the option, with the fields that lead to the table."""
    declared = vllm_arguments.fields(path, image)
    rules = declared or _OPEN.get(path, {})
    inside = path.partition(".")[2]
    for key, value in table.items():
        field = f"{inside}.{key}" if inside else key
        rule = _MODALITY if path == "limit_mm_per_prompt" else rules.get(key)
        if rule is None:
            hint = suggestion_text(key, (*rules,))
            if hint or (declared and image <= vllm_arguments.images()[-1]):
                yield field, f"unknown to vLLM {vllm_arguments.version(image)}", hint
        elif key == "kv_connector" and "kv_connector_module_path" in table:
            continue
        elif isinstance(value, dict) and (rule.kind in ("json", "any") or rule is _MODALITY):
            yield from _of_table(f"{path}.{key}", value, image)
        elif mistake := _value(key, value, rule, image):
            yield field, *mistake


def _value(key: str, value: Any, rule: ArgumentRule, image: int) -> Mistake | None:
    """None: the value is right, or lmi cannot tell."""
    if value is None or rule.kind == "any":
        return None
    shown = quoted(value) if isinstance(value, str) else json.dumps(value)
    match rule.kind:
        case "text":
            return None if isinstance(value, str) else (f"{shown} is not text", f'write "{shown}"')
        case "json":
            return (
                None if isinstance(value, dict) else (f"{shown} is not an object", 'such as {"key": "value"}')
            )
        case "list":
            return (
                None
                if isinstance(value, list)
                else (f"{shown} is not a list", f"write [{json.dumps(value)}]")
            )
        case "flag":
            right = str(value).lower() in _YES_OR_NO
            return None if right else (f"{shown} is not true or false", "")
        case _:
            pass
    if isinstance(value, (dict, list)):
        return f"{shown} is not a single value", ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return text_mistake(key, str(value), rule, f"vLLM {vllm_arguments.version(image)}")
