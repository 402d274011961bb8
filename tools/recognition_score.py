"""How right `planning/task_detection` is on the published models of tools/published_models.json.

`python -m tools.recognition_score [build|left-out]` prints the score and each model that is recognised wrongly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.planning.task_detection import DetectedTask, detect_task

CLASSES: Final = Path(__file__).with_name("class_tasks.json")
MODELS: Final = Path(__file__).with_name("published_models.json")
PARTS: Final = ("build", "left-out")


def read_models() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(MODELS.read_text(encoding="utf-8"))
    return table


def recognition_of(name: str, config: dict[str, Any]) -> DetectedTask:
    """By config.json alone: the files have no label of the Hub."""
    files = tuple(
        FileEntry(path=path, size=1, oid="0" * 40, kind="git-sha1")
        for path in ("config.json", "model.safetensors")
    )
    return detect_task(ModelListing(model_id=name, commit="0" * 40, files=files), config)


def score(part: str) -> tuple[int, int, list[str]]:
    """Right ones, judged ones, and a line for each wrong one; without a config.json nothing can be judged."""
    models = read_models()["models"]
    judged = {name: one for name, one in models.items() if one["part"] == part and one["config"]}
    found = {name: recognition_of(name, one["config"]) for name, one in judged.items()}
    wrong = [
        f"{name}: {found[name].kind} ({found[name].evidence}), published {one['kind']}"
        for name, one in judged.items()
        if found[name].kind != one["kind"]
    ]
    return len(judged) - len(wrong), len(judged), wrong


def class_score() -> tuple[int, int, list[tuple[str, str, str]]]:
    """The same for the classes of transformers, each by its default configuration: right ones, all, and of each wrong
    one the class, its task and ours."""
    rows = read_classes()["classes"]
    found = [
        (name, kind, recognition_of(name, {**config, "architectures": [name]}).kind)
        for kind, name, config in rows
    ]
    wrong = [(name, kind, str(ours)) for name, kind, ours in found if kind != ours]
    return len(rows) - len(wrong), len(rows), wrong


def read_classes() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(CLASSES.read_text(encoding="ascii"))
    return table


def main(parts: Sequence[str]) -> int:
    for part in parts or PARTS:
        right, judged, wrong = score(part)
        print(f"== {part}: {right} of {judged} right")
        print("\n".join(wrong))
    right, judged, unequal = class_score()
    print(f"== classes of transformers: {right} of {judged} right")
    print("\n".join(f"{name}: {ours}, published {kind}" for name, kind, ours in unequal))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
