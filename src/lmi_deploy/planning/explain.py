"""`lmi explain`: what a word means that recipes, logs and errors contain, by the tables that check and print it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lmi_deploy.catalog import options
from lmi_deploy.catalog.doc_pages import find_page
from lmi_deploy.catalog.failure_classes import failure_classes
from lmi_deploy.catalog.known_failures import Failure, failures
from lmi_deploy.domain.documentation import WordMeaning
from lmi_deploy.errors import EXIT_ADVICE, EXIT_CODES, LmiError, UsageRefused
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.planning.setting_names import settings_text, with_recipe_keys
from lmi_deploy.recipe.model.field_types import Key, KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE
from lmi_deploy.recipe.model.named_groups import GroupsField
from lmi_deploy.recipe.name_suggestions import nearest
from lmi_deploy.recipe.option_descriptions import described_engines, engine_options, values_text
from lmi_deploy.recipe.reference_page import default_text, kind_text

_SPOKEN: Final = {"oom": "torch.OutOfMemoryError: CUDA out of memory", "out of memory": "CUDA out of memory"}
"""What people call a failure, and what a log says."""
_PREFIXES: Final = ("options.", "option.", "properties.", "--")


def explain(word: str) -> tuple[WordMeaning, ...]:
    """Every meaning of the word; UsageRefused, with the nearest word, if it has none."""
    asked = _spoken(word)
    found = tuple(each for source in _SOURCES for each in source(asked)) or tuple(_of_text(word))
    if not found:
        near = nearest(asked, [*_words()])
        raise UsageRefused(
            f"{word}: not a recipe key, an option, an engine, a failure, an error, an exit code, or a page",
            hint=f"did you mean {near}? `lmi docs` lists the pages, `lmi docs {word}` searches them"
            if near
            else f"`lmi docs {word}` searches the pages",
        )
    return found


def recipe_keys(group: KeyGroup = RECIPE, path: str = "") -> Iterator[tuple[str, Key]]:
    """Every key of a recipe by its full path, groups before their keys."""
    for key in group.keys:
        name = f"{path}.{key.name}" if path else key.name
        yield name, key
        if isinstance(key.shape, KeyGroup):
            yield from recipe_keys(key.shape, name)
        elif isinstance(key.shape, GroupsField):
            yield from recipe_keys(key.shape.group, f"{name}.NAME")


def _spoken(word: str) -> str:
    """A word as the tables write it: `OPTION_MAX_MODEL_LEN`, `--max-model-len` and `option.max_model_len` are one."""
    text = word.strip()
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    if text.startswith("OPTION_"):
        text = text.removeprefix("OPTION_").lower()
    return text


def _of_recipe(word: str) -> Iterator[WordMeaning]:
    for path, key in recipe_keys():
        if word in (path, path.rpartition(".")[2]):
            facts = [("type", plain(kind_text(key)))]
            if usual := plain(default_text(key)):
                facts.append(("default", usual))
            if key.example:
                facts.append(("example", f"{key.name}: {key.example}"))
            if isinstance(key.shape, KeyGroup):
                facts = [("keys", ", ".join(inner.name for inner in key.shape.keys))]
            yield WordMeaning(
                kind="recipe key",
                name=path,
                text=plain(key.doc),
                facts=tuple(facts),
                page="recipe",
            )


def _of_options(word: str) -> Iterator[WordMeaning]:
    name = word.replace("-", "_")
    same: dict[tuple[str, str], list[str]] = {}
    for engine in described_engines():
        for option in engine_options(engine):
            if option.name.replace("-", "_") == name:
                same.setdefault((option.values, option.versions), []).append(engine)
    for (values, versions), engines in same.items():
        yield WordMeaning(
            kind="option",
            name=name,
            text=f"An option of {', '.join(engines)}; in a recipe below `options`.",
            facts=(("values", plain(values) or "text"), ("versions", versions)),
            page="options",
        )
    handlers = [template for template, read in options.TEMPLATE_OPTIONS.items() if name in read]
    if handlers:
        values = ", ".join(options.TEMPLATE_OPTIONS[handlers[0]][name])
        yield WordMeaning(
            kind="option",
            name=name,
            text=f"An option of lmi's own handlers ({', '.join(handlers)}); in a recipe below `options`.",
            facts=_given([("values", values)]),
            page="options",
        )
    rule = options.SERVER_KEYS.get(word)
    if rule is not None:
        yield WordMeaning(
            kind="server key",
            name=word,
            text="A key of serving.properties; in a recipe below `properties`, without `option.`.",
            facts=(("values", plain(values_text(rule, "")) or "text"),),
            page="options",
        )


def _of_failures(word: str) -> Iterator[WordMeaning]:
    for failure in failures():
        if failure.id == word.lower():
            yield _failure(failure)
    for each in failure_classes():
        if each.id == word.lower():
            facts = (("do", with_recipe_keys(each.remedy)), ("about", settings_text(each.settings)))
            yield WordMeaning(
                kind="class of failures", name=each.id, text=each.cause, facts=_given(facts), page="failures"
            )


def _failure(failure: Failure) -> WordMeaning:
    only = ", ".join(filter(None, (failure.engine, failure.versions)))
    facts = (
        ("do", with_recipe_keys(failure.remedy)),
        ("only", only),
        ("known by", "; ".join(each.literal.strip() for each in failure.patterns)),
        ("about", settings_text(failure.settings)),
        ("seen", failure.source),
    )
    wrapper = "It only says that something failed; the cause is in other lines. "
    text = wrapper * (failure.level == "wrapper") + failure.cause
    return WordMeaning(kind="failure", name=failure.id, text=text, facts=_given(facts), page="failures")


def _of_text(text: str) -> Iterator[WordMeaning]:
    """What a log or an error says, by the patterns of `lmi diagnose`; a page of this name, and an engine."""
    known = {failure.id: failure for failure in failures()}
    for cause in find_causes([_SPOKEN.get(text.lower(), text)]):
        if cause.id in known:
            yield _failure(known[cause.id])
        elif cause.explained:
            facts = (("do", cause.remedy), ("seen", cause.source))
            yield WordMeaning(
                kind="failure", name=cause.id, text=cause.cause, facts=_given(facts), page="failures"
            )
    if text.lower() in described_engines():
        names = ", ".join(option.name for option in engine_options(text.lower()))
        text_of = f"An engine: `engine: {text.lower()}` in a recipe. Its options: {names}."
        yield WordMeaning(kind="engine", name=text.lower(), text=plain(text_of), page="engines")
    if page := find_page(text):
        yield WordMeaning(kind="page", name=page.name, text=page.title, page=page.name)


def _of_errors(word: str) -> Iterator[WordMeaning]:
    for kind in LmiError.__subclasses__():
        if kind.__name__.lower() == word.replace("-", "").lower():
            meaning = EXIT_CODES[kind.exit_code]
            yield WordMeaning(
                kind="error",
                name=kind.__name__,
                text=" ".join((kind.__doc__ or "").split()),
                facts=(("exit code", f"{kind.exit_code}: {meaning}"),),
                page="json-events",
            )


def _of_exit_codes(word: str) -> Iterator[WordMeaning]:
    if word.isdigit() and int(word) in EXIT_CODES:
        code = int(word)
        kinds = [kind.__name__ for kind in LmiError.__subclasses__() if kind.exit_code == code]
        facts = (("do", plain(EXIT_ADVICE[code])), ("errors", ", ".join(kinds)))
        yield WordMeaning(
            kind="exit code", name=word, text=EXIT_CODES[code], facts=_given(facts), page="exit-codes"
        )


_SOURCES: Final[tuple[Callable[[str], Iterable[WordMeaning]], ...]] = (
    _of_exit_codes,
    _of_recipe,
    _of_options,
    _of_failures,
    _of_errors,
)


def _words() -> Iterator[str]:
    for path, key in recipe_keys():
        yield from dict.fromkeys((path, key.name))
    for engine in described_engines():
        yield from (option.name for option in engine_options(engine))
    yield from options.SERVER_KEYS
    yield from (failure.id for failure in failures())
    yield from (each.id for each in failure_classes())
    yield from (kind.__name__ for kind in LmiError.__subclasses__())


def _given(facts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in facts if value)


def plain(markdown: str) -> str:
    """A cell of a table without its marks."""
    return markdown.replace("`", "").replace("*", "")
