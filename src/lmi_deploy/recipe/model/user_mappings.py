"""Rules for keys and values of the user's own: options, properties, environment variables, tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.deployment_artifact import DRAFT_SLOT, MARKER, SLOT
from lmi_deploy.domain.djl_serving import ADAPTERS_FOLDER, MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.recipe_compile_keys import MODEL_ARGUMENT, OUTPUT_ARGUMENT
from lmi_deploy.domain.recipe_key_types import OneLine
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.recipe.model.scalar_type import InvalidValue
from lmi_deploy.recipe.model.scalar_types import scalar_type
from lmi_deploy.recipe.secret_detection import names_secret
from lmi_deploy.recipe.yaml.tree import MappingNode, Node, quoted

_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_DISTANCE = re.compile(r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?")
_CHANGE = re.compile(r"[+-]?(0|[1-9][0-9]{0,4})")
_BUILD_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HUB_TOKENS = frozenset(("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN"))
MOST_DIMENSION_TEXT = 255
"""CloudWatch accepts up to 1024 characters, Application Auto Scaling fewer in some names; this is enough for both."""
_NO_SECRET = "looks like a secret; a recipe must not contain secrets, because it is stored and shown"
_HUB_TOKEN_HINT = "remove it: lmi downloads the weights before the container starts"
_AWS_HINT = "remove it: the container has the credentials of the endpoint's role"
_SECRET_HINT = (
    "store it in AWS Secrets Manager, set {name}_SECRET_NAME to its name and read it in the handler "
    "(`lmi docs use-secrets`)"
)
OPTION_HOMES = {
    "model_id": "model_id",
    "model_dir": "model_id",
    "s3url": "model_id",
    "revision": "revision",
    "task": "task",
    "tensor_parallel_degree": "tensor_parallel_degree",
    "trust_remote_code": "trust_remote_code",
    "trust_insecure_model_files": "files.allow_pickle",
    "entryPoint": "handler",
    "predict_timeout": "timeouts.predict",
    "model_loading_timeout": "timeouts.model_loading",
}
"""Options that the tool writes from a key of the recipe's own."""
ARTIFACT_HOMES = {
    SERVING_PROPERTIES: "options or properties",
    MODEL_PY: "handler.file",
    REQUIREMENTS_TXT: "requirements",
    ADAPTERS_FOLDER: "adapters",
    MARKER: "engine",
}
"""Names at the top of the artifact that the tool writes from a key of the recipe's own."""
ENVIRONMENT_HOMES = {
    "HF_MODEL_ID": "model_id",
    "HF_REVISION": "revision",
    "HF_TASK": "task",
    "TENSOR_PARALLEL_DEGREE": "tensor_parallel_degree",
    "HF_MODEL_TRUST_REMOTE_CODE": "trust_remote_code",
    "PREDICT_TIMEOUT": "timeouts.predict",
    "MODEL_LOADING_TIMEOUT": "timeouts.model_loading",
    "DJL_ENTRY_POINT": "handler",
}
"""Environment variables that the tool sets from a key of the recipe's own."""


def option_key(key: str) -> str:
    """The name of an option, without its prefix."""
    if key.startswith("option."):
        raise InvalidValue("lmi adds the prefix", f"write {key.removeprefix('option.')}")
    if key in OPTION_HOMES:
        raise InvalidValue("lmi writes it from another key of the recipe", f"use {OPTION_HOMES[key]}")
    return _property(key)


def property_key(key: str) -> str:
    """The name of one of the server's own keys."""
    if key.startswith("option."):
        raise InvalidValue("is an option", f"write {key.removeprefix('option.')} under options")
    if key == "engine":
        raise InvalidValue("lmi writes it from another key of the recipe", "use engine")
    return _property(key)


def property_value(value: str) -> str:
    """A value for serving.properties: anything but the mark that the target replaces by the weights' location."""
    for slot in (SLOT, DRAFT_SLOT):
        if slot in value:
            raise InvalidValue(f"holds {slot}", "lmi sets the location of the weights: use model_id")
    return value


def environment_key(key: str) -> str:
    """The name of an environment variable that is not a secret and does not bypass the recipe."""
    error = sagemaker_limits.text_error("environment_key", key)
    if error:
        raise InvalidValue(f"{quoted(key)} is not a valid name of an environment variable: {error}")
    if names_secret(key):
        raise InvalidValue(f"the value of {key} {_NO_SECRET}", _secret_hint(key))
    if key in ENVIRONMENT_HOMES:
        raise InvalidValue("lmi writes it from another key of the recipe", f"use {ENVIRONMENT_HOMES[key]}")
    if key.startswith("OPTION_"):
        raise InvalidValue(
            "sets an option without any check", f"write {key.removeprefix('OPTION_').lower()} under options"
        )
    return key


def artifact_path(path: str) -> str:
    """A path in the artifact for a file of the user's: none that lmi writes itself."""
    if why := check_relative_path(path):
        raise InvalidValue(f"{quoted(path)} {why}", "write a path below the artifact's folder")
    first = path.partition("/")[0].lower()
    if first in ARTIFACT_HOMES:
        raise InvalidValue(
            f"lmi writes {first} from another key of the recipe", f"use {ARTIFACT_HOMES[first]}"
        )
    return path


def build_argument(key: str) -> str:
    """The name of a build argument. Its value can be read in the image's history by everyone who may pull it."""
    if not _BUILD_ARGUMENT.fullmatch(key):
        raise InvalidValue(
            f"{quoted(key)} is not a valid name of a build argument", "use letters, digits and _"
        )
    if names_secret(key):
        raise InvalidValue(
            f"the value of {key} {_NO_SECRET}",
            "remove it: a value of ARG also stays readable in the image. Download what needs it before the build",
        )
    return key


def compile_argument(key: str) -> str:
    """The name of an argument of the user's compile script, without its dashes."""
    if key.startswith("-"):
        raise InvalidValue("lmi adds the dashes", f"write {key.lstrip('-')}")
    if f"--{key}" in (MODEL_ARGUMENT, OUTPUT_ARGUMENT):
        raise InvalidValue("lmi passes the folder itself", "remove it")
    if names_secret(key):
        raise InvalidValue(f"the value of {key} {_NO_SECRET}", "remove it")
    if not _ARGUMENT.fullmatch(key):
        raise InvalidValue(
            f"{quoted(key)} is not a valid argument", "use letters, digits, dashes and underscores"
        )
    return key


def dimension_text(text: str) -> str:
    """The name or the value of a dimension (CloudWatch API reference, Dimension)."""
    if (
        not 1 <= len(text) <= MOST_DIMENSION_TEXT
        or not (text.isascii() and text.isprintable())
        or text[0] == ":"
    ):
        raise InvalidValue(
            f"{quoted(text[:80])} is not valid in a dimension",
            f"use 1 to {MOST_DIMENSION_TEXT} printable ASCII characters, not beginning with a colon",
        )
    return text


def step_distance(text: str) -> str:
    if not _DISTANCE.fullmatch(text):
        raise InvalidValue(f"{quoted(text[:80])} is not a distance from the threshold", "such as 0 or 12.5")
    return text


def step_change(text: str) -> str:
    if not _CHANGE.fullmatch(text):
        raise InvalidValue(f"{quoted(text[:80])} is not a whole number", 'such as "+2" or "-1"')
    return text


def tag_key(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise InvalidValue("names that start with aws: are reserved for AWS")
    if key.lower().startswith("lmi:"):
        raise InvalidValue("names that start with lmi: are reserved for lmi")
    # A tag's key may well be called project-key.
    if names_secret(key) and not key.lower().endswith("key"):
        raise InvalidValue(
            f"the value of {key} {_NO_SECRET}", "remove it: every user who may list tags can read it"
        )
    return _matching_rule("tag_key", key)


def _matching_rule(kind: str, text: str) -> str:
    """Text that SageMaker accepts."""
    error = sagemaker_limits.text_error(kind, text)
    if error:
        raise InvalidValue(error)
    return text


def _secret_hint(name: str) -> str:
    if name.upper() in _HUB_TOKENS:
        return _HUB_TOKEN_HINT
    if name.upper().startswith("AWS_"):
        return _AWS_HINT
    return _SECRET_HINT.format(name=name.upper())


def _property(key: str) -> str:
    if names_secret(key):
        raise InvalidValue(f"the value of {key} {_NO_SECRET}", _secret_hint(key))
    if not _PROPERTY.fullmatch(key):
        raise InvalidValue(
            f"{quoted(key)} is not a valid key of serving.properties",
            "use letters, digits, dots, dashes and underscores",
        )
    return key


class PairRules(NamedTuple):
    """What the keys and values of one such mapping must be; `limit` names SageMaker's limit on how many there are."""

    key: Callable[[str], str] = str
    value: Callable[[str], str] = str
    limit: str = ""
    joined: bool = False
    """Whether a key is a path in a recipe, such as options.dtype."""

    def flat(self, key: str, node: Node) -> str:
        """The hint for keys that were written as a mapping in a mapping."""
        if not self.joined or not isinstance(node, MappingNode):
            return ""
        return f"write {', '.join(f'{key}.{name}: VALUE' for name in node.entries)}"


PAIR_RULES: Mapping[str, PairRules] = {
    "artifact file": PairRules(artifact_path, scalar_type(OneLine("path")).read),
    "build argument": PairRules(build_argument),
    "compile argument": PairRules(compile_argument),
    "dimension": PairRules(dimension_text, dimension_text),
    "environment": PairRules(environment_key, partial(_matching_rule, "environment_value"), "environment"),
    "option": PairRules(option_key, property_value),
    "property": PairRules(property_key, property_value),
    "step": PairRules(step_distance, step_change),
    "tag": PairRules(tag_key, partial(_matching_rule, "tag_value"), "tags"),
    "text": PairRules(joined=True),
}
