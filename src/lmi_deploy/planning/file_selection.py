"""Which files of a repository a deployment needs, each choice with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from lmi_deploy.domain.deployment_spec import WeightsSpec
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.recipe_weights_keys import Files
from lmi_deploy.errors import Unresolvable

INDEX = "model.safetensors.index.json"
"""The list of a model's safetensors files."""
_CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
WEIGHTS = (".safetensors", *PICKLES)
GRAPHS = (".onnx", ".plan", ".engine")
"""Weights of servers of the user's own, if a pattern of the recipe selects them."""
_OTHER_FRAMEWORKS = (
    ".h5",
    ".msgpack",
    ".ot",
    ".onnx",
    ".onnx_data",
    ".gguf",
    ".tflite",
    ".mlmodel",
    ".llamafile",
)
_NEEDED = (".json", ".safetensors", ".model", ".txt", ".jinja", ".tiktoken", ".spm", ".vocab")
_FOLDERS = ("original/", "onnx/", "openvino/", "coreml/", "metal/", "gguf/", ".git/")
Reason = Callable[[FileEntry], str]


def files_of(recipe: Recipe, listing: ModelListing) -> WeightsSpec:
    """`select` of the recipe's own model."""
    own_code = recipe.engine == "custom"
    in_mistrals = dict(recipe.options).get("load_format") == "mistral"
    return select(
        listing,
        recipe.files,
        remote_code=recipe.trust_remote_code,
        own_code=own_code,
        in_mistrals_format=in_mistrals,
    )


def select(
    listing: ModelListing,
    files: Files,
    *,
    remote_code: bool,
    own_code: bool = False,
    in_mistrals_format: bool = False,
) -> WeightsSpec:
    """The files to transfer, sorted by path; Unresolvable if no weights would be among them. `own_code`: only the
    user's code knows what its files are, and all go along if none is named as weights usually are.
    `in_mistrals_format`: vLLM then reads `consolidated*.safetensors` alone (vllm, default_loader.py).
    """
    is_unknown = own_code and not any(entry.path.endswith(WEIGHTS) for entry in listing.files)
    if is_unknown:
        reason = _own_reason(files)
    elif in_mistrals_format and not (files.allow or files.ignore):
        reason = _mistral_reason(listing, _reason(listing, files, remote_code=remote_code))
    else:
        reason = _reason(listing, files, remote_code=remote_code)
    verdicts = [(entry, reason(entry)) for entry in sorted(listing.files, key=lambda entry: entry.path)]
    chosen = tuple(entry for entry, why in verdicts if not why)
    if not (is_unknown and chosen):
        _require_weights(listing, chosen, files)
    left_out = Counter(why for _, why in verdicts if why)
    return WeightsSpec(files=chosen, left_out=tuple(sorted(left_out.items())))


def require_shards(weights: WeightsSpec, shards: Sequence[str], files: Files) -> None:
    """Every file that the safetensors index names must be among the chosen ones, if the index is among them."""
    present = {entry.path for entry in weights.files}
    if INDEX not in present:
        return
    absent = sorted(set(shards) - present)
    if absent:
        why = (
            "a pattern of `files` excludes it"
            if files.allow or files.ignore
            else "the repository does not have it"
        )
        raise Unresolvable(
            f"{INDEX} lists {len(set(shards))} files, {len(absent)} are missing: {absent[0]}",
            hint=f"{why}; the model cannot be loaded without it",
        )


def _reason(listing: ModelListing, files: Files, *, remote_code: bool) -> Reason:
    paths = [entry.path for entry in listing.files]
    safetensors = any(_sharded(path) for path in paths) or any(
        path.endswith(".safetensors") for path in paths
    )
    hub_shards = any(_sharded(path) for path in paths)

    def reason(entry: FileEntry) -> str:
        path = entry.path
        if files.allow or files.ignore:
            return _by_pattern(path, files)
        if any(path.startswith(folder) for folder in _FOLDERS) or path.endswith(_OTHER_FRAMEWORKS):
            return "for another framework"
        if hub_shards and PurePosixPath(path).name.startswith("consolidated"):
            return "a duplicate of the sharded weights"
        if path.endswith(PICKLES):
            return _pickle(safetensors=safetensors, allowed=files.allow_pickle)
        if path.endswith(".py"):
            return "" if remote_code else "code (trust_remote_code is false)"
        return "" if path.endswith(_NEEDED) and not _about(path) else "not needed to serve"

    return reason


def _mistral_reason(listing: ModelListing, usual: Reason) -> Reason:
    if not any(_is_consolidated(entry.path) for entry in listing.files):
        raise Unresolvable(
            f"options.load_format: mistral reads consolidated.safetensors, and {listing.model_id} does not have it",
            hint="leave load_format out, or use a repository with weights in Mistral's own format",
        )

    def reason(entry: FileEntry) -> str:
        if _is_consolidated(entry.path) or PurePosixPath(entry.path).name == _CONSOLIDATED_INDEX:
            return ""
        if _sharded(entry.path) or entry.path == INDEX:
            return "not read with load_format mistral"
        return usual(entry)

    return reason


def _is_consolidated(path: str) -> bool:
    return PurePosixPath(path).name.startswith("consolidated") and path.endswith(".safetensors")


def _own_reason(files: Files) -> Reason:
    def reason(entry: FileEntry) -> str:
        return "compiled code" if "__pycache__/" in entry.path else _by_pattern(entry.path, files)

    return reason


def _pickle(*, safetensors: bool, allowed: bool) -> str:
    if safetensors:
        return "pickle, but safetensors exist"
    return "" if allowed else "pickle (files.allow_pickle is false)"


def _by_pattern(path: str, files: Files) -> str:
    if files.allow and not any(fnmatchcase(path, pattern) for pattern in files.allow):
        return "not in files.allow"
    if any(fnmatchcase(path, pattern) for pattern in files.ignore):
        return "in files.ignore"
    if path.endswith(PICKLES) and not files.allow_pickle:
        return "pickle (files.allow_pickle is false)"
    return ""


def _sharded(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith("model") and name.endswith(".safetensors") and "/" not in path


def _about(path: str) -> bool:
    return (
        PurePosixPath(path)
        .name.lower()
        .startswith(("license", "readme", "notice", "requirements", "use_policy"))
    )


def _is_named(path: str, files: Files) -> bool:
    return path.endswith(GRAPHS) and any(fnmatchcase(path, pattern) for pattern in files.allow)


def _require_weights(listing: ModelListing, chosen: Sequence[FileEntry], files: Files) -> None:
    # What the user's own server calls weights (`model.plan`, `model.onnx`) is named by a pattern.
    if any(entry.path.endswith(WEIGHTS) or _is_named(entry.path, files) for entry in chosen):
        return
    if any(entry.path.endswith(PICKLES) for entry in listing.files) and not files.allow_pickle:
        raise Unresolvable(
            f"{listing.model_id} has its weights only as pickle, which can run code when it is loaded",
            hint="choose a revision with safetensors, or set `files: {allow_pickle: true}` if you trust its authors",
        )
    raise Unresolvable(
        f"{listing.model_id} at {listing.commit[:8]}: none of the {len(listing.files)} files are selected as weights",
        hint="check the repository's files, and `files:` in the recipe; a handler of your own without weights, or with "
        "others than lmi knows, needs `engine: custom` (`lmi docs write-a-handler`)",
    )
