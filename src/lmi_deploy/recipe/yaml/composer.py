"""YAML text to a tree of nodes: composed, never constructed.

The parser's events are read one at a time and nothing is recursive, so an alias bomb or deep nesting costs no more
than the first refused event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import yaml

from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.yaml.source import MAX_DEPTH, MAX_VALUES, SourceText
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourcePosition,
)

_UNSAYABLE = re.compile("[\x00\ud800-\udfff]")
LOADER: type[yaml.CLoader] | type[yaml.Loader] = getattr(yaml, "CLoader", yaml.Loader)


class Composer:
    """Collects the problems of one text; `tree` is None if it contains nothing usable."""

    def __init__(self, source: SourceText, loader: type[yaml.CLoader] | type[yaml.Loader] = LOADER) -> None:
        self._loader = loader
        self.problems: list[Problem] = []
        self._source = source
        self._open: list[_Frame] = []
        self._root: Node | None = None
        self._values = 0
        self._documents = 0

    def compose(self) -> Node | None:
        try:
            for event in _events(self._loader(self._source.text)):
                if not self._take(event):
                    break
        except yaml.MarkedYAMLError as exc:
            self.problems.append(self._source.syntax(exc))
            return None
        return None if self._open else self._root

    def _take(self, event: yaml.Event) -> bool:
        """Add one event to the tree; False if reading further is pointless."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                what, hint = "a second document starts here", "remove the ---: a recipe is one document"
                self._report(self._place(event), what, hint)
            return self._documents == 1
        if isinstance(event, yaml.NodeEvent):
            return self._node(event, self._place(event))
        if isinstance(event, yaml.CollectionEndEvent):
            self._add(self._open.pop().node())
        return True

    def _node(self, event: yaml.NodeEvent, place: SourcePosition) -> bool:
        self._values += 1
        if self._values > MAX_VALUES:
            self._report(place, f"more than {MAX_VALUES} values", "use fewer values")
            return False
        invalid = self._refused(event, place)
        if isinstance(event, (yaml.ScalarEvent, yaml.AliasEvent)):
            self._add(InvalidNode(place) if invalid else self._scalar(event, place))
            return True
        if len(self._open) >= MAX_DEPTH:
            self._report(place, f"nested deeper than {MAX_DEPTH} levels")
            return False
        self._open.append(_Frame(self._report, place, listing=isinstance(event, yaml.SequenceStartEvent)))
        return True

    def _scalar(self, event: yaml.NodeEvent, place: SourcePosition) -> Node:
        text = str(event.value)  # type: ignore[attr-defined]
        if _UNSAYABLE.search(text):
            self._report(
                place,
                "contains a NUL or half a surrogate pair",
                "remove the character: servers do not accept it",
            )
            return InvalidNode(place)
        style = event.style  # type: ignore[attr-defined]
        start = self._source.block_start(place) if style == "|" else None
        return ScalarNode(place, text, plain=not style, start=start)

    def _refused(self, event: yaml.NodeEvent, place: SourcePosition) -> bool:
        if event.start_mark and self._source.tab_before(event.start_mark):
            self._report(place, "this line is indented with a tab", "use spaces for indentation")
        if isinstance(event, yaml.AliasEvent):
            self._report(
                place, f"alias *{str(event.anchor)[:60]}", "aliases are not allowed: write the value again"
            )
            return True
        if event.anchor:
            self._report(
                place,
                f"anchor &{str(event.anchor)[:60]}",
                "anchors are not allowed: write the value where it is used",
            )
        tag = getattr(event, "tag", None)
        if tag:
            shown = tag.replace("tag:yaml.org,2002:", "!!")[:60]
            self._report(place, f"tag {shown}", "tags are not allowed: remove it")
        return False

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].add(node)
        else:
            self._root = node

    def _place(self, event: yaml.Event) -> SourcePosition:
        mark = event.start_mark
        return self._source.place(mark.line, mark.column) if mark else self._source.place(0, 0)

    def _report(self, place: SourcePosition, what: str, hint: str = "") -> None:
        path = ".".join(frame.pending for frame in self._open if frame.pending)
        self.problems.append(place.problem(path, what, hint))


class _Frame:
    """A list or mapping that is not yet complete."""

    def __init__(
        self, notify: Callable[[SourcePosition, str, str], None], place: SourcePosition, *, listing: bool
    ) -> None:
        self._report, self._place, self._listing = notify, place, listing
        self._items: list[Node] = []
        self._entries: dict[str, MappingEntry] = {}
        self._key: Node | None = None

    @property
    def pending(self) -> str:
        """The key whose value is being read."""
        return self._key.text[:60] if isinstance(self._key, ScalarNode) else ""

    def add(self, node: Node) -> None:
        if self._listing:
            self._items.append(node)
        elif self._key is None:
            self._key = node
        else:
            self._pair(self._key, node)
            self._key = None

    def node(self) -> Node:
        return (
            SequenceNode(self._place, tuple(self._items))
            if self._listing
            else MappingNode(self._place, self._entries)
        )

    def _pair(self, key: Node, value: Node) -> None:
        if isinstance(key, InvalidNode) or (isinstance(key, ScalarNode) and key.text.startswith("x-")):
            return
        if not isinstance(key, ScalarNode):
            self._report(key.place, "a list or mapping as a key", "use one word as the key")
        elif key.plain and key.text == "<<":
            self._report(
                key.place, "merge key <<", "merge keys are not allowed: write the keys out, or use overlays"
            )
        elif key.text in self._entries:
            first = self._entries[key.text].place
            where = f"line {first.line}" if first.line else f"column {first.column}"
            self._report(key.place, "duplicate key", f"first in {where}")
        else:
            self._entries[key.text] = MappingEntry(key.place, value)


def _events(loader: yaml.CLoader | yaml.Loader) -> Iterator[yaml.Event]:
    try:
        while loader.check_event():
            event = loader.get_event()
            if event is not None:
                yield event
    finally:
        loader.dispose()
