"""The reference page of the recipe, from the same declaration that reads recipes."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog import options, sagemaker_limits
from lmi_deploy.recipe.model.field_types import Key, KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE
from lmi_deploy.recipe.model.named_groups import GroupsField

_HEAD = """\
# The recipe

This page is generated from the declaration that reads recipes (`lmi_deploy/domain/recipe_keys.py`).

A recipe is one YAML file of at most 1 MiB. `lmi` reads every plain value as text: `1.10`, `012` and `no` stay
as written. Each key converts the text to its own type; `options`, `properties` and `environment` pass it unchanged.
`lmi` refuses aliases, anchors, merge keys, tags, duplicate keys, several documents and tabs as indentation, and names
the line. It ignores keys that start with `x-`, at every level.

`lmi validate` reports every mistake at once, as `file:line:column: key: what failed, what to do`. `lmi schema` prints
the JSON Schema; this first line points an editor at it:

```yaml
# yaml-language-server: $schema=../docs/reference/recipe.schema.json
```
"""

_OVERLAYS = """\
## `overlays`

`overlays` maps a name to keys that change the recipe when `--overlay NAME` selects the name. Mappings are merged
key by key at every depth; lists and single values are replaced. The deployment is then called `<name>-<overlay>`,
so that `prod` never replaces `staging`.

```yaml
overlays:
  prod:
    endpoint: {port: 9000}
```

`--set key=value` overrides one key after that, and can be repeated: `--set endpoint.port=8080`, `--set
options.dtype=fp32`, `--set files.allow=[*.json,*.safetensors]`. The value is YAML; it replaces the previous value.
"""


def reference_page() -> str:
    """docs/reference/recipe.md, complete."""
    sections = [_HEAD, *_sections(RECIPE, ""), _OVERLAYS, _sources()]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections)


def _sections(group: KeyGroup, path: str) -> Iterator[str]:
    """The keys of this group in one table, then each group below it."""
    yield "\n".join(
        [
            f"## `{path}`" if path else "## Keys at the top",
            "",
            "| Key | Type | Default | Meaning | Example |",
            "|---|---|---|---|---|",
            *_rows(group),
        ]
    )
    for key in group.keys:
        name = f"{path}.{key.name}" if path else key.name
        if isinstance(key.shape, KeyGroup):
            yield from _sections(key.shape, name)
        elif isinstance(key.shape, GroupsField):
            yield from _sections(key.shape.group, f"{name}.NAME")


def _rows(group: KeyGroup) -> Iterator[str]:
    for key in group.keys:
        kind = kind_text(key)
        example = f"`{key.name}: {key.example}`" if key.example else ""
        cells = (f"`{key.name}`", kind, default_text(key), key.doc, example)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def kind_text(key: Key) -> str:
    if isinstance(key.shape, KeyGroup):
        return "group, see below"
    bounds = key.shape.schema()
    if "SageMaker's limits" in key.shape.label and "minimum" in bounds:
        return f"{key.shape.label}: {bounds['minimum']} to {bounds['maximum']}"
    return key.shape.label


def default_text(key: Key) -> str:
    if key.required:
        return "*required*"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return "" if key.default is None else f"`{key.default}`"


def _sources() -> str:
    lines = [
        "## Where names and limits come from",
        "",
        f"- Instance types, regions, limits: {sagemaker_limits.source()[0]} ({sagemaker_limits.source()[1]}).",
        f"- [Options by server version](options.md): {options.source()[0]} ({options.source()[1]}).",
    ]
    return "\n".join(lines)
