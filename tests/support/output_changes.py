"""What a program that reads `--json` loses from one version of its JSON Schema to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

OUTPUT_SCHEMA: Final = "json-output.schema.json"
Schema = dict[str, Any]


def losses(old: Schema, new: Schema) -> list[str]:
    """Each field of `old` that is gone, may be absent, or has another type in `new`; new ones are no loss."""
    return list(dict.fromkeys(_Comparison(old["$defs"], new["$defs"]).of(old, new, "")))


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[str, str]] = set()

    def of(self, old: Schema, new: Schema, at: str) -> Iterator[str]:
        if "$ref" in old or "$ref" in new:
            names = (old.get("$ref", "").rpartition("/")[2], new.get("$ref", "").rpartition("/")[2])
            if names not in self._compared:
                self._compared.add(names)
                old, new = self._old.get(names[0], old), self._new.get(names[1], new)
                yield from self.of(old, new, names[0] or at)
        elif "anyOf" in old:
            yield from self._alternatives(old["anyOf"], new.get("anyOf", [new]), at)
        elif "anyOf" in new:
            yield f"{at}: may be something else now"
        elif old.get("type") != new.get("type") or old.get("const") != new.get("const"):
            yield f"{at}: another type"
        elif old.get("type") == "object":
            yield from self._objects(old, new, at)
        elif old.get("type") == "array":
            yield from self.of(old.get("items", {}), new.get("items", {}), f"{at}[]")

    def _alternatives(self, old: list[Schema], new: list[Schema], at: str) -> Iterator[str]:
        """Those that are named are compared with those of the name; one of the others may be gone, none may be new."""
        by_name = {one["$ref"]: one for one in new if "$ref" in one}
        for one in old:
            if "$ref" not in one:
                continue
            if one["$ref"] in by_name:
                yield from self.of(one, by_name[one["$ref"]], at)
            else:
                yield f"{at}: {one['$ref'].rpartition('/')[2]} is gone".removeprefix(": ")
        if any("$ref" not in one and one not in old for one in new):
            yield f"{at}: may be something else now"

    def _objects(self, old: Schema, new: Schema, at: str) -> Iterator[str]:
        for name, value in old.get("properties", {}).items():
            place = f"{at}.{name}"
            if name not in new.get("properties", {}):
                yield f"{place}: gone"
                continue
            if name in old["required"] and name not in new["required"]:
                yield f"{place}: may be absent now"
            yield from self.of(value, new["properties"][name], place)
        values = old.get("additionalProperties")
        if isinstance(values, dict):
            yield from self.of(values, new.get("additionalProperties") or {}, f"{at}.*")
