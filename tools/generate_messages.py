"""Write catalog/vendor_messages.bin: the error messages of the software in the images, as templates to match logs with.

`python -m tools.generate_messages [FOLDER]` reads the releases of `message_sources.PACKAGES` (2.4 GB) in FOLDER, or
downloads them there, and AWS's errors from the installed botocore. The file is text, deflated: a line of JSON (sources,
date, files, exceptions), then one line for each template; catalog/vendor_messages.py describes its columns.
"""

from __future__ import annotations

import datetime
import html
import json
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import botocore
import botocore.loaders

from lmi_deploy.catalog.vendor_messages import TABLE, WORD, TemplatePlace, TemplateRow, joined, shown
from tools.message_sources import PACKAGES, sources
from tools.message_templates import HOLE, Template, java_templates, python_templates

AWS: Final = (
    *("sagemaker", "sagemaker-runtime", "s3", "sts", "iam", "kms", "ecr", "logs", "application-autoscaling"),
    *("cloudwatch", "ec2", "secretsmanager", "service-quotas", "scheduler", "sns"),
)
"""Services of which `lmi`, or SageMaker for it, gets errors."""
_LETTERS: Final = 10
_WORDS: Final = 2
"""Fewest letters and words of a template outside of its holes: shorter ones would match anything."""
_PLACES: Final = 12
"""Source files of one template: what dozens of them have says little about any."""
_SENTENCE: Final = 240


@dataclass(slots=True)
class _Place:
    """A source file with a template: `last` is its newest form, `versions` the indices of those that have it there."""

    path: str
    last: Template
    versions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Found:
    """A template over all versions of a package, with its places by their paths; the newest comes first."""

    package: int
    text: str
    kind: str
    places: dict[str, _Place] = field(default_factory=dict)

    @property
    def ordered(self) -> list[_Place]:
        return sorted(self.places.values(), key=lambda each: (-max(each.versions), each.path))[:_PLACES]


def main(folder: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = [*_templates(Path(folder or scratch))]
    every = [(each, place) for each in found for place in each.ordered]
    files = sorted({(each.package, place.path) for each, place in every})
    exceptions = sorted({place.last.exception for _, place in every})
    head = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "packages": [[each.name, each.versions, each.licence] for each in PACKAGES],
        "files": [path for _, path in files],
        "exceptions": exceptions,
        "aws": {"botocore": botocore.__version__, "errors": _aws_errors()},
    }
    frequency = Counter(word for each in found for word in set(_words(each.text)))
    numbers = {each: index for index, each in enumerate(files)}
    rows = [_row(each, frequency, numbers, exceptions) for each in found]
    text = "\n".join([json.dumps(head, separators=(",", ":")), *sorted(rows)])
    TABLE.write_bytes(zlib.compress(text.encode(), 9))
    size = TABLE.stat().st_size
    print(f"{TABLE.name}: {len(rows)} templates of {len(files)} files, {size:,} bytes", file=sys.stderr)


def _templates(folder: Path) -> Iterator[_Found]:
    for number, package in enumerate(PACKAGES):
        found: dict[tuple[str, str], _Found] = {}
        for index, version in enumerate(package.versions):
            for path, text in sources(package, version, folder):
                read = java_templates if path.endswith(".java") else python_templates
                for each in read(text):
                    _add(found, number, index, path, each)
        yield from found.values()


def _add(
    found: dict[tuple[str, str], _Found], package: int, version: int, path: str, template: Template
) -> None:
    text = re.sub(r"[ \t]+", " ", template.text.replace("\n", "\x02")).strip(f" \x02{HOLE}")
    if len(set(_words(shown(text)))) < _WORDS or len(re.findall("[A-Za-z]", text)) < _LETTERS:
        return
    known = found.setdefault((text, template.kind), _Found(package, text, template.kind))
    place = known.places.setdefault(path, _Place(path, template))
    if version not in place.versions:
        place.last = template
        place.versions.append(version)


def _words(text: str) -> list[str]:
    """The whole words outside of holes."""
    return WORD.findall(re.sub(rf"\w*{HOLE}\w*", " ", text))


def _row(
    found: _Found, frequency: Counter[str], files: dict[tuple[int, str], int], exceptions: list[str]
) -> str:
    rare = sorted(set(_words(shown(found.text))), key=lambda word: (frequency[word], -len(word), word))[:2]
    places = [
        TemplatePlace(
            versions=str(sum(1 << index for index in each.versions)),
            path=str(files[found.package, each.path]),
            line=str(each.last.line),
            exception=str(exceptions.index(each.last.exception)),
            condition=_one_line(each.last.condition),
            names=",".join(each.last.names),
        )
        for each in found.ordered
    ]
    row = TemplateRow(rare[0], rare[1], found.kind, str(found.package), joined(places), _one_line(found.text))
    return "\t".join(row)


def _one_line(text: str) -> str:
    """Without the table's separators."""
    return re.sub(r"[\t\n\r\x03\x04]", " ", text)


def _aws_errors() -> dict[str, str]:
    """The first sentence about each error code, from the service models; the shortest if several services have it."""
    loader, found = botocore.loaders.Loader(), dict[str, str]()
    for service in AWS:
        model: dict[str, Any] = loader.load_service_model(service, "service-2")
        for name, shape in model["shapes"].items():
            words = " ".join(re.sub(r"<[^>]*>", " ", html.unescape(shape.get("documentation", ""))).split())
            sentence = re.split(r"(?<=\.) ", words)[0][:_SENTENCE]
            if not shape.get("exception") or not sentence:
                continue
            for code in {name, shape.get("error", {}).get("code", name)}:
                found[code] = min(filter(None, (found.get(code, ""), sentence)), key=len)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    main(*sys.argv[1:2])
