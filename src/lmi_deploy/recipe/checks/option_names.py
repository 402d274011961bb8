"""Option lint: an option that the server or our handler would drop silently is a mistake of the recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.catalog import options
from lmi_deploy.catalog.server_version import Server, shipped_server
from lmi_deploy.domain.recipe_keys import DEFAULT_ENGINE, Pairs
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.json_fields import field_mistakes, field_offset
from lmi_deploy.recipe.checks.notices import is_newer
from lmi_deploy.recipe.checks.option_pairs import given, pair_mistakes
from lmi_deploy.recipe.checks.option_values import json_offset, property_mistakes, text_mistake, value_mistake
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.recipe.reader import ParsedFields
from lmi_deploy.recipe.yaml.tree import quoted

SERVER = "server"
BUILTIN = "djl_python.huggingface"


def lint(partial: ParsedFields) -> Iterator[Problem]:
    """Every option that has no effect, every value and every pair of options that the server refuses."""
    mistaken = [*_each_option(partial)]
    yield from mistaken
    yield from _of_triton(partial)
    yield from _of_own_server(partial)
    properties = partial.value("properties", ())
    for name, mistake in property_mistakes(properties):
        yield _value(partial, name, *mistake, group="properties")
    if partial.value("engine", DEFAULT_ENGINE) == "vllm" and partial.is_valid("engine"):
        options_of = {**dict(properties), **dict(partial.value("options", ()))}
        if partial.value("adapters"):
            options_of.setdefault("enable_lora", "true")  # lmi sets it
        given_options = given(
            options_of, partial.value("tensor_parallel_degree"), _shipped_server(partial, "vllm")
        )
        reported = {problem.key.split(".")[1] for problem in mistaken}
        for name, what, hint in pair_mistakes(given_options):
            if name not in reported:
                yield _at(partial, name, what, hint)


def _each_option(partial: ParsedFields) -> Iterator[Problem]:
    pairs: Pairs = partial.value("options", ())
    engine = partial.value("engine", DEFAULT_ENGINE) if partial.is_valid("engine") else ""
    handlers = _handlers(partial) if engine == "accelerate" else _server_handlers(partial, engine)
    if not pairs or not handlers or not options.linted(engine):
        return
    for name, value in pairs:
        if engine == "accelerate" and name == "rolling_batch":
            hint = "remove it; properties: {batch_size: N} batches requests"
            yield _at(partial, name, "engine accelerate has no rolling batch", hint)
        elif name in options.SERVER_KEYS:
            yield _at(
                partial, name, "is a property of the server, not an option", "write it under properties"
            )
        elif handlers == (SERVER,):
            yield from _of_server(partial, engine, name, value)
        elif SERVER not in handlers:
            yield from _of_template(partial, handlers[0], name, value)
        elif name not in (own := options.template_names()):
            yield from _of_server(partial, engine, name, value, also=own)
    if SERVER in handlers:
        yield from _together(partial, dict(pairs))


def _handlers(partial: ParsedFields) -> tuple[str, ...]:
    """The handlers whose options engine accelerate may have: a template's, the built-in handler's, or any (none
    given).

    Without a handler and a task the model decides, so that both are possible.
    """
    if any(f"handler.{name}" in partial.is_invalid for name in ("file", "template", "builtin")):
        return ()
    if "handler.file" in partial.found:
        return ()
    if "handler.template" in partial.found:
        return (str(partial.value("handler.template")),)
    if "handler.builtin" in partial.found:
        return (SERVER,) if partial.value("handler.builtin") == BUILTIN else ()
    task = partial.value("task")
    if task is None:
        return (*options.TEMPLATE_OPTIONS, SERVER)
    return (task,) if task in options.TEMPLATE_OPTIONS else (SERVER,)


def _server_handlers(partial: ParsedFields, engine: str) -> tuple[str, ...]:
    """None for the user's own code, which may read any option; vLLM's own options are checked even then."""
    own = any(f"handler.{name}" in (*partial.found, *partial.is_invalid) for name in ("file", "builtin"))
    return () if own and engine != "vllm" else (SERVER,)


def _of_template(partial: ParsedFields, template: str, name: str, value: str) -> Iterator[Problem]:
    """lmi's own handlers read few options, which are listed."""
    known = options.TEMPLATE_OPTIONS[template]
    names = [*known, *options.server_names()]
    if name not in names:
        hint = suggestion_text(name, names) or f"it reads {', '.join(known)}"
        yield _at(partial, name, f"unknown to handler template {template}, which would ignore it", hint)
    elif known.get(name) and value.lower() not in known[name]:
        yield _value(
            partial,
            name,
            f"{quoted(value)} is not one of {', '.join(known[name])}",
            suggestion_text(value, known[name]),
        )


def _of_server(
    partial: ParsedFields, engine: str, name: str, value: str, *, also: tuple[str, ...] = ()
) -> Iterator[Problem]:
    shipped = _shipped_server(partial, engine)
    version = str(shipped or options.newest(engine))
    if not options.covers(engine, version):
        return
    found = options.option_status(engine, name, version)
    server = f"{engine} on server {version}"
    instead = f"use {found.instead}" if found.instead else ""
    match found.state:
        case "unknown":
            hint = instead or suggestion_text(name, (*options.names(engine, version), *also))
            may_know = not options.is_complete(engine) or (
                engine == "vllm" and shipped is not None and is_newer(shipped)
            )
            if may_know and not hint:
                return  # a notice, no mistake
            yield _at(partial, name, f"unknown to {server}, which would ignore it", hint)
        case "removed":
            yield _at(partial, name, f"removed in {found.edge}: {server} would ignore it", instead)
        case "later":
            yield _at(partial, name, f"added in {found.edge}: {server} would ignore it", "")
        case "known":
            yield from _known(partial, name, value, found)
            if engine == "vllm" and (mistake := value_mistake(name, value, shipped)):
                yield _value(partial, name, *mistake, offset=json_offset(value))
            elif engine == "vllm":
                for field, what, hint in field_mistakes(name, value, shipped):
                    place = _value(partial, name, what, hint, offset=field_offset(value, field))
                    yield replace(place, key=f"options.{name}.{field}")


def _of_triton(partial: ParsedFields) -> Iterator[Problem]:
    """Triton reads a model repository; an option is a setting of it."""
    if partial.value("engine", DEFAULT_ENGINE) != "triton":
        return
    # Imported here, not above: `lmi validate` of other engines does not need the table.
    from lmi_deploy.catalog import triton_options

    pairs, mistaken = dict(partial.value("options", ())), False
    for name, value in pairs.items():
        if name not in triton_options.OPTIONS:
            hint = suggestion_text(name, (*triton_options.OPTIONS,))
            yield _at(partial, name, "unknown to engine triton", hint)
            mistaken = True
        elif mistake := triton_options.triton_value_mistake(name, value):
            hint = suggestion_text(value, triton_options.OPTIONS[name].values)
            yield _value(partial, name, f"{quoted(value)} {mistake}", hint)
            mistaken = True
    given_options = {
        "handler.file",
        "options.execution_environment",
        "container.image",
        "container.build",
    } & {
        *partial.found,
        *(f"options.{name}" for name in pairs),
    }
    if not given_options and partial.value("endpoint.target") != "local":
        yield partial.problem(
            "options",
            "execution_environment is missing; Triton's image has neither transformers nor torch",
            "pack an environment, put it beside the weights and name its file: "
            "options: {execution_environment: environment.tar.gz} (`lmi docs serve-with-triton`)",
        )
    for name, what, hint in () if mistaken else triton_options.triton_pair_mistakes(pairs):
        yield _value(partial, name, what, hint)
    for name, _ in partial.value("properties", ()):
        problem = _value(
            partial, name, "has no effect: Triton has no serving.properties", "", group="properties"
        )
        yield replace(problem, hint="remove it")
    if (partial.value("tensor_parallel_degree") or 1) > 1:
        what = "engine triton does not split a model over devices"
        yield partial.problem(
            "tensor_parallel_degree", what, "write options: {instance_count: N} for more copies"
        )


def _of_own_server(partial: ParsedFields) -> Iterator[Problem]:
    """vLLM's and SGLang's own servers do not start with an argument that they do not know."""
    engine = partial.value("engine", DEFAULT_ENGINE)
    if engine not in ("vllm-server", "sglang") or not partial.value("options", ()):
        return
    # Imported here, not above: `lmi validate` of other engines does not need the tables.
    from lmi_deploy.catalog import server_arguments

    server = server_arguments.server_of(engine, partial.value("container.version") or "")
    is_known = server.is_exact and not {"container.image", "container.build"} & partial.found.keys()
    for name, value in partial.value("options", ()):
        plain = name.replace("-", "_")
        rule = server_arguments.argument(plain, server)
        if rule is not None:
            if is_known and (mistake := text_mistake(plain, value, rule, str(server))):
                yield _value(partial, name, *mistake, offset=json_offset(value))
            continue
        near = suggestion_text(plain, server_arguments.names(server))
        others = server_arguments.versions_with(plain, engine)
        if is_known or near:
            newest = f"container.version {others[-1]} has it" if others else ""
            hint = " ".join(filter(None, (near, newest))) or "`lmi docs options` lists its arguments"
            yield _at(partial, name, f"unknown to {server}, which would not start", hint)


def _shipped_server(partial: ParsedFields, engine: str) -> Server | None:
    version = partial.value("container.version")
    image = partial.value("container.image") or partial.value("container.build")
    return shipped_server(engine, version, image, local=partial.value("endpoint.target") == "local")


def _known(partial: ParsedFields, name: str, value: str, found: options.OptionStatus) -> Iterator[Problem]:
    if found.values and value.lower() not in found.values:
        what = f"{quoted(value)} is not one of {', '.join(found.values)}"
        yield _value(partial, name, what, suggestion_text(value, found.values))
    elif not found.values and not options.acceptable(found.kind, value):
        what = f"{quoted(value)} is not {'a number' if found.kind in ('int', 'float') else 'true or false'}"
        yield _value(partial, name, what, "change it: with this value the server does not start")


def _together(partial: ParsedFields, pairs: dict[str, str]) -> Iterator[Problem]:
    """Combinations that the built-in transformers handler refuses at start-up."""
    quantized = pairs.get("quantize") in ("bitsandbytes4", "bitsandbytes8")
    if partial.value("engine") == "accelerate" and quantized and "device_map" not in pairs:
        yield _at(partial, "quantize", f"{pairs['quantize']} needs device_map", "add device_map: auto")
    if partial.value("engine") == "accelerate" and pairs.get("enable_streaming") == "true":
        what = f"true breaks every request with a single prompt in {BUILTIN}"
        yield _value(partial, "enable_streaming", what, "write huggingface")


def _at(partial: ParsedFields, name: str, what: str, hint: str) -> Problem:
    return partial.problem(f"options.{name}", what, hint)


def _value(
    partial: ParsedFields, name: str, what: str, hint: str, *, group: str = "options", offset: int = 0
) -> Problem:
    """At the value; in a block at the character after `offset`."""
    path = f"{group}.{name}"
    return partial.value_place(path, offset).problem(path, what, hint)
