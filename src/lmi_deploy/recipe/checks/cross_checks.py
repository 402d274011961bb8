"""Cross-checks between fields. They run beside field errors and skip the fields that have one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from lmi_deploy.catalog.options import IMAGE_TEMPLATE
from lmi_deploy.domain.recipe_compile_keys import OWN_COMPILER
from lmi_deploy.domain.recipe_keys import ADAPTER_ENGINES, DEFAULT_ENGINE, IMAGE_SERVERS
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.image_build import image_build
from lmi_deploy.recipe.checks.in_place import in_place
from lmi_deploy.recipe.checks.option_names import lint
from lmi_deploy.recipe.reader import ParsedFields
from lmi_deploy.recipe.secret_detection import secret_in
from lmi_deploy.recipe.yaml.tree import ScalarNode, quoted

Rule = Callable[[ParsedFields], Iterator[Problem]]
_PREDICT_LIMIT = 60
_JSON = "application/json"
HANDLERS = ("builtin", "template", "file")
OWN_FILES = ("handler.file", "requirements", "compile.script", "compile.requirements")


def check(partial: ParsedFields) -> tuple[Problem, ...]:
    """Every contradiction between fields that are good in themselves."""
    return tuple(problem for rule in RULES for problem in rule(partial))


def _instances(partial: ParsedFields) -> Iterator[Problem]:
    if partial.value("endpoint.target") == "local" and partial.value("instance_type"):
        hint = "remove it, or in an overlay write instance_type: []"
        yield partial.problem("instance_type", "endpoint.target is local, which has no instance types", hint)


def _handler(partial: ParsedFields) -> Iterator[Problem]:
    chosen = [name for name in HANDLERS if f"handler.{name}" in partial.found]
    if len(chosen) > 1:
        last = max(chosen, key=lambda name: _where(partial, f"handler.{name}"))
        others = " and ".join(name for name in chosen if name != last)
        hint = "keep one of builtin, template and file"
        yield partial.problem(f"handler.{last}", f"cannot be combined with {others}", hint)
    elif chosen == ["template"]:
        yield from _template(partial)


def _template(partial: ParsedFields) -> Iterator[Problem]:
    engine = partial.value("engine", DEFAULT_ENGINE) if partial.is_valid("engine") else ""
    template = partial.value("handler.template")
    if engine not in ("accelerate", ""):
        what = f"{template} needs engine accelerate"
        yield partial.problem("handler.template", what, "set handler.file, or engine: accelerate")
    task = partial.value("task")
    served = "text-generation" if template == IMAGE_TEMPLATE else template
    if task is not None and task != served:
        hint = "set handler.builtin or handler.file, or another task"
        yield partial.problem("handler.template", f"{template} does not support task {task}", hint)


def _custom(partial: ParsedFields) -> Iterator[Problem]:
    """A custom engine runs the user's own code, and only its author knows a valid probe."""
    if partial.value("engine") != "custom":
        return
    named = any(f"handler.{name}" in partial.found for name in HANDLERS)
    has_image = bool({"container.image", "container.build"} & partial.found.keys())
    readable = partial.is_valid(
        *("handler", "container", "container.image", "container.build"),
        *(f"handler.{name}" for name in HANDLERS),
    )
    if not named and not has_image and readable:
        what = (
            "missing; engine custom runs your own model.py, or the server in your own image (container.image or "
            "container.build)"
        )
        yield partial.problem("handler.file", what, "such as handler: {file: model.py}")
    if not named and has_image:
        yield from _not_for_image_servers(partial, "a server of your own")
        if partial.value("options", ()):
            hint = "write its settings under container.environment"
            yield partial.problem("options", "your image's server gets no options from lmi", hint)
    if "handler.builtin" in partial.found:
        what = "engine custom runs your own model.py"
        yield partial.problem("handler.builtin", what, "set handler.file, or use engine: accelerate")
    if "probe.body" not in partial.found and partial.is_valid("probe", "probe.body"):
        what = "missing; lmi does not know the request format of engine custom"
        yield partial.problem("probe.body", what, 'such as probe: {body: \'{"inputs": "OK"}\'}')


def _vllm_here(partial: ParsedFields) -> Iterator[Problem]:
    """On this machine vLLM runs behind DJL's service alone, unless an image has both."""
    elsewhere = (
        partial.value("endpoint.target") != "local" or partial.value("endpoint.runtime") == "container"
    )
    has_image = bool({"container.image", "container.build"} & partial.found.keys())
    engine = partial.value("engine", DEFAULT_ENGINE) if partial.is_valid("engine") else ""
    if engine == "vllm" and "handler.file" in partial.found and not elsewhere and not has_image:
        what = "engine vllm, the default, runs on this machine behind its own service alone"
        hint = "set engine: custom or accelerate, or endpoint.runtime: container with an image"
        yield partial.problem("handler.file", what, hint)


def _image_server(partial: ParsedFields) -> Iterator[Problem]:
    engine = partial.value("engine", "")
    if engine in IMAGE_SERVERS:
        yield from _not_for_image_servers(partial, f"engine {engine}")


def _not_for_image_servers(partial: ParsedFields, what: str) -> Iterator[Problem]:
    """Keys of DJLServing, which another server would ignore."""
    if partial.value("properties", ()):
        hint = "use options, or container.environment"
        yield partial.problem("properties", f"{what} has no serving.properties", hint)
    if "requirements" in partial.found:
        hint = "remove it, or build an image of your own"
        yield partial.problem("requirements", f"{what} installs no packages at start-up", hint)


def _probe(partial: ParsedFields) -> Iterator[Problem]:
    if "probe.prompt" in partial.found and "probe.body" in partial.found:
        last = max(("probe.prompt", "probe.body"), key=lambda path: _where(partial, path))
        yield partial.problem(last, "both prompt and body", "keep one of them")


def _probe_body(partial: ParsedFields) -> Iterator[Problem]:
    """Sent unchanged, and refused by the server only once the endpoint runs, and is billed."""
    body = partial.value("probe.body")
    kind = partial.value("probe.content_type", _JSON) if partial.is_valid("probe.content_type") else ""
    if body is None or str(kind).partition(";")[0].strip().lower() != _JSON:
        return
    if why := _no_json(body):
        what, hint = f"is not valid {_JSON}: {why}", "or set content_type, such as text/plain"
        yield partial.problem("probe.body", what, hint)


def _no_json(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as reason:
        return f"{reason.msg} at its line {reason.lineno}, column {reason.colno}"
    except RecursionError:
        return "it is nested too deep"
    return ""


def _own_files(partial: ParsedFields) -> Iterator[Problem]:
    for path in OWN_FILES if partial.purpose.deploying else ():
        name = partial.value(path)
        if name is not None and (why := partial.purpose.file_error(name)):
            hint = "write the path relative to the recipe's folder"
            yield partial.problem(path, f"{name}: {why}", hint)
    for path, name in partial.value("files.extra", ()) if partial.purpose.deploying else ():
        if why := partial.purpose.file_error(name):
            hint = "write the path relative to the recipe's folder"
            yield partial.problem(f"files.extra.{path}", f"{name}: {why}", hint)


def _timeouts(partial: ParsedFields) -> Iterator[Problem]:
    """One chain: loading is part of start-up, and a real-time response has SageMaker's 60 seconds."""
    loading, startup = partial.value("timeouts.model_loading"), partial.value("timeouts.container_startup")
    if loading is not None and startup is not None and loading > startup:
        what = f"{loading} s is longer than container_startup ({startup} s), which includes the load of the model"
        hint = f"use at most {startup}, or a longer container_startup"
        yield partial.problem("timeouts.model_loading", what, hint)
    predict = partial.value("timeouts.predict")
    real_time = partial.value("endpoint.target") != "local" and "endpoint.asynchronous" not in partial.found
    if predict is not None and predict > _PREDICT_LIMIT and real_time:
        what = f"{predict} s, but SageMaker limits a real-time request to {_PREDICT_LIMIT} s"
        yield partial.problem(
            "timeouts.predict", what, f"use at most {_PREDICT_LIMIT}, or endpoint.asynchronous"
        )


def _adapters(partial: ParsedFields) -> Iterator[Problem]:
    """Adapters that no code would load."""
    if not partial.value("adapters") or not partial.is_valid("engine", "adapters"):
        return
    engine = partial.value("engine", DEFAULT_ENGINE)
    if engine not in ADAPTER_ENGINES:
        what = f"engine {engine} serves no LoRA adapters"
        hint = f"use engine: {' or '.join(ADAPTER_ENGINES)}, or merge the adapter into the model"
        yield partial.problem("adapters", what, hint)
    options = dict(partial.value("options", ()))
    if options.get("enable_lora", "true").strip().lower() != "true":
        what = f"{options['enable_lora']}, but the recipe has adapters"
        yield partial.problem("options.enable_lora", what, "omit it: lmi sets it for a recipe with adapters")


def _compile(partial: ParsedFields) -> Iterator[Problem]:
    """What a script alone can do, and an engine that only a script can compile for."""
    if "compile" not in partial.found or not partial.is_valid("engine", "compile", "compile.script"):
        return
    if "compile.script" in partial.found:
        return
    engine = partial.value("engine", DEFAULT_ENGINE)
    if engine not in OWN_COMPILER:
        what = f"missing; engine {engine} has no compiler of its own"
        yield partial.problem("compile.script", what, "such as compile: {script: compile.py}")
        return
    for key in ("arguments", "requirements"):
        if f"compile.{key}" in partial.found:
            hint = "write the settings of the engine's own compiler under options, or add compile.script"
            yield partial.problem(f"compile.{key}", "has no effect without compile.script", hint)


def _expiry(partial: ParsedFields) -> Iterator[Problem]:
    key = "endpoint.scheduler_role"
    if key in partial.found and "ttl" not in partial.found and partial.is_valid("ttl"):
        yield partial.problem(key, "has no effect without ttl", "add ttl, such as ttl: 8h")


def _scaling(partial: ParsedFields) -> Iterator[Problem]:
    low, high = partial.value("endpoint.autoscaling.min"), partial.value("endpoint.autoscaling.max")
    if low is not None and high is not None and low > high:
        yield partial.problem("endpoint.autoscaling.min", f"{low} is more than max ({high})")


def _secrets(partial: ParsedFields) -> Iterator[Problem]:
    hint = (
        "keep secrets out of the recipe: for the Hub log in or set HF_TOKEN; for a handler use AWS Secrets Manager "
        "(`lmi docs use-secrets`)"
    )
    texts = [(path, found.value) for path, found in partial.found.items() if isinstance(found.value, str)]
    pairs = [(path, entry.value) for path, entry in partial.pairs.items()]
    texts += [(path, node.text) for path, node in pairs if isinstance(node, ScalarNode)]
    for path, text in texts:
        group, _, name = path.rpartition(".")
        if what := secret_in(text, name if group == "container.environment" else ""):
            yield partial.problem(path, f"holds {what}", hint)


def _uploader(partial: ParsedFields) -> Iterator[Problem]:
    model_id = str(partial.value("model_id", ""))
    staged = partial.value("weights.via") == "snapshot"
    is_valid = partial.is_valid("model_id", "weights.via")
    engine = partial.value("weights.engine")
    if engine in ("s5cmd", "obstore") and not staged and not is_folder(model_id) and is_valid:
        what = f"{engine} sends files from the disk, but these weights are not stored here"
        hint = "add weights.via: snapshot, which downloads them first, or remove weights.engine"
        yield partial.problem("weights.engine", what, hint)


def _model_folder(partial: ParsedFields) -> Iterator[Problem]:
    """A model_id that is a path must be a folder on this machine."""
    model_id = str(partial.value("model_id", ""))
    if is_folder(model_id) and (why := partial.purpose.folder_error(model_id)):
        hint = "write the path relative to the recipe's folder; a model of the Hub is ORG/NAME"
        yield partial.problem("model_id", f"{model_id}: {why}", hint)
    for adapter in partial.value("adapters", ()):
        if is_folder(adapter.source) and (why := partial.purpose.folder_error(adapter.source)):
            hint = "write the path relative to the recipe's folder; an adapter of the Hub is ORG/NAME"
            yield partial.problem(f"adapters.{adapter.name}", f"{adapter.source}: {why}", hint)


def _patterns(partial: ParsedFields) -> Iterator[Problem]:
    """A pattern that no path of a repository can match: it would leave out everything, or nothing."""
    for key in ("files.allow", "files.ignore"):
        for pattern in partial.value(key, ()):
            if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or "\\" in pattern:
                what = (
                    f"{quoted(pattern)} matches no file: paths start at the top of the model's own repository"
                )
                better = pattern.replace("\\", "/").lstrip("/~")
                parts = [part for part in better.split("/") if part not in ("", ".", "..")]
                yield partial.problem(key, what, f"write {quoted('/'.join(parts))}" if parts else "remove it")


def _where(partial: ParsedFields, path: str) -> tuple[int, int]:
    place = partial.place(path)
    return (place.line or 1 << 30), place.column


def _target(partial: ParsedFields) -> Iterator[Problem]:
    """Nothing if only the weights are transferred, and nothing that depends on an invalid key."""
    if not (partial.purpose.deploying and _is_valid_path(partial, "endpoint.target")):
        return
    for issue in partial.purpose.target_issues(partial.build()):
        if all(_is_valid_path(partial, path) for path in issue.about):
            written = (path for path in issue.about if path in partial.found or path in partial.pairs)
            place = partial.place(next(written, issue.path))
            yield place.problem(issue.path, issue.what, issue.hint)


def _is_valid_path(partial: ParsedFields, path: str) -> bool:
    """Whether neither the key nor a group around it was complained about."""
    parts = path.split(".")
    return partial.is_valid(*(".".join(parts[: end + 1]) for end in range(len(parts))))


RULES: tuple[Rule, ...] = (
    _instances,
    _handler,
    _custom,
    _vllm_here,
    _image_server,
    _probe,
    _probe_body,
    _own_files,
    image_build,
    _timeouts,
    _adapters,
    _compile,
    _expiry,
    _scaling,
    _secrets,
    _uploader,
    in_place,
    _target,
    lint,
    _model_folder,
    _patterns,
)
