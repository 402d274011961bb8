"""Convert one written value to a typed one: a ScalarType parses text, and describes its values in words and JSON
Schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.catalog.options import TEMPLATE_OPTIONS
from lmi_deploy.domain.deployment_names import MAX_NAME, NAME, name_error
from lmi_deploy.domain.recipe_key_types import (
    EnumOf,
    FilePath,
    Integer,
    Limited,
    MatchingRule,
    Named,
    Number,
    OneLine,
    ScalarRule,
    Seconds,
)
from lmi_deploy.recipe.model.number_types import decimal, number_type
from lmi_deploy.recipe.model.scalar_type import NUMERIC_TEXT, InvalidValue, ScalarType
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.recipe.yaml.tree import quoted

_HUB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", re.DOTALL)
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
_ROLE_NAME = re.compile(r"([A-Za-z0-9_+=,.@-]{1,64}/){0,4}[A-Za-z0-9_+=,.@-]{1,64}")
"""IAM's rule for a role's name, with the path before it that some roles have."""
FLAG = ScalarType("`true` or `false`", lambda text: _flag(text), lambda: {"type": "boolean"})


def choice(*values: str) -> ScalarType:
    """One of a few words."""
    return ScalarType(
        "one of " + ", ".join(f"`{v}`" for v in values),
        lambda t: _one_of(t, values),
        lambda: {"enum": [*values]},
    )


def scalar_type(rule: ScalarRule) -> ScalarType:
    """How values under this rule of the declaration are read and described."""
    match rule:
        case OneLine(label):
            return ScalarType(label, _line, lambda: NUMERIC_TEXT)
        case Integer() | Number() | Seconds() | Limited():
            return number_type(rule)
        case EnumOf(table, noun, or_auto):
            auto = ("auto",) if or_auto else ()
            return ScalarType(
                f"{noun}, or `auto`" if or_auto else noun,
                lambda text: text if text in auto else _enum(text, table, noun),
                lambda: {"enum": [*auto, *sagemaker_limits.names(table)]},
            )
        case MatchingRule(kind, noun):
            return ScalarType(noun, lambda text: _matching_rule(text, kind, noun))
        case FilePath(suffix):
            return ScalarType(
                f"path of a {suffix} file, relative to the recipe", lambda text: _path(text, suffix)
            )
        case Named(name):
            return _NAMED[name]


def _line(text: str) -> str:
    if not text.strip():
        raise InvalidValue("is empty", "remove the key, or give it a value")
    if not all(char.isprintable() or char == "\u00a0" for char in text):
        raise InvalidValue(
            f"{quoted(text)} has a line break or an unprintable character", "write one line of text"
        )
    return text


def _one_of(text: str, values: Sequence[str]) -> str:
    if text in values:
        return text
    raise InvalidValue(f"{quoted(text)} is not one of {', '.join(values)}", suggestion_text(text, values))


def _enum(text: str, table: str, what: str) -> str:
    known = sagemaker_limits.names(table)
    if text in known:
        return text
    missing_ml = f"ml.{text}" if f"ml.{text}" in known else ""
    hint = f"did you mean {missing_ml}?" if missing_ml else suggestion_text(text, known)
    raise InvalidValue(f"{quoted(text)}: SageMaker has no such {what}", hint)


def _matching_rule(text: str, kind: str, what: str) -> str:
    error = sagemaker_limits.text_error(kind, text)
    if error:
        raise InvalidValue(f"{quoted(text)} is not a valid {what}: {error}")
    return text


def _flag(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    yes = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
    suggestion = yes.get(text.lower(), text.lower())
    hint = f"did you mean {suggestion}?" if suggestion in ("true", "false") else ""
    raise InvalidValue(f"{quoted(text)} is neither true nor false", hint)


def _degree(text: str) -> int | None:
    if text == "auto":
        return None
    number = decimal(text)
    if number is None or not 1 <= number <= 1024:
        raise InvalidValue(f"{quoted(text)} is neither a positive whole number nor auto")
    return number


def _name(text: str) -> str:
    error = name_error(text)
    if error:
        raise InvalidValue(f"{quoted(text)} is not a valid deployment name: {error}")
    return text


def _model_id(text: str) -> str:
    _line(text)
    if text.startswith(("./", "../", "/", "~/")) or text in (".", ".."):
        return text
    if text.startswith("s3://"):
        if _S3.fullmatch(text):
            return text
        raise InvalidValue(f"{quoted(text)} is not an S3 prefix", "write s3://bucket/prefix")
    if _HUB_ID.fullmatch(text) and ".." not in text and "--" not in text:
        return text
    hint = "write owner/name for the Hub, or a folder that starts with ./ or /"
    raise InvalidValue(f"{quoted(text)} is neither a Hub id, an s3:// prefix nor a folder", hint)


def _revision(text: str) -> str:
    if len(text) > 200 or not _REVISION.fullmatch(text) or ".." in text:
        raise InvalidValue(f"{quoted(text)} is not a valid branch, tag or commit")
    return text


def _path(text: str, suffix: str) -> str:
    _line(text)
    if not text.endswith(suffix):
        raise InvalidValue(f"{quoted(text)} is not a {suffix} file")
    return text


def _folder(text: str) -> str:
    _line(text)
    if "://" in text:
        raise InvalidValue(
            f"{quoted(text)} is not a folder", "write a folder relative to the recipe: ./container"
        )
    return text


def _module(text: str) -> str:
    if len(text) > 200 or not re.fullmatch(r"djl_python(\.[A-Za-z_][A-Za-z0-9_]*)+", text):
        raise InvalidValue(
            f"{quoted(text)} is not a module of djl_python",
            "such as djl_python.huggingface; your own model.py goes under handler.file",
        )
    return text


def _role(text: str) -> str:
    if _ROLE_NAME.fullmatch(text):
        return text
    error = sagemaker_limits.text_error("role", text)
    if error:
        raise InvalidValue(
            f"{quoted(text)} is neither a role ARN nor a role name",
            "write arn:aws:iam::<account>:role/<name>",
        )
    return text


def _bucket(text: str) -> str:
    plain = text.replace("-", "").replace(".", "")
    if not (3 <= len(text) <= 63 and plain.isascii() and plain.isalnum() and plain == plain.lower()):
        raise InvalidValue(f"{quoted(text)} is not a bucket name", "write only the name, without s3://")
    return text


_NAMED: Mapping[str, ScalarType] = {
    "bucket": ScalarType("bucket name", _bucket),
    "degree": ScalarType(
        "whole number, or `auto`",
        _degree,
        lambda: {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]},
    ),
    "deployment name": ScalarType(
        f"lower case letters, digits and single dashes, at most {MAX_NAME}",
        _name,
        lambda: {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": MAX_NAME},
    ),
    "folder": ScalarType("folder, relative to the recipe", _folder),
    "handler module": ScalarType("dotted name of a module of DJL's Python engine", _module),
    "handler template": choice(*TEMPLATE_OPTIONS),
    "model id": ScalarType("Hub id, `s3://` prefix, or folder (`./…`, `/…`, `~/…`)", _model_id),
    "revision": ScalarType("branch, tag or commit", _revision, lambda: NUMERIC_TEXT),
    "role": ScalarType("role ARN, or the name of a role in the account", _role),
    "text": ScalarType("text, one or more lines", lambda text: text, lambda: NUMERIC_TEXT),
}
