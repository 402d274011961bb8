"""Write catalog/images.json: the serving images that AWS publishes, from the image JSON of a `sagemaker-core` wheel.

`python -m tools.generate_images [WHEEL|newest]`; without one, the version that the table names is read. The package
is never imported: it would bring pandas and scipy. Tests compare the table with the wheel that it names, and with the
newest release: if they fail, AWS has published images that the table lacks, and `newest` adds them.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lmi_deploy.catalog import sagemaker_limits
from tests.support.wheels import fetched

TABLE: Final = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog" / "images.json"
NEWEST: Final = "sagemaker-core"
"""As a requirement: without a version."""
FOLDER: Final = "sagemaker/core/image_uri_config"
FAMILIES: Final = (
    *("djl-lmi", "djl-tensorrtllm", "djl-neuronx", "djl-deepspeed", "djl-fastertransformer"),
    *("vllm", "vllm-server", "vllm-omni", "sglang", "sglang-server"),
    *("huggingface-vllm", "huggingface-vllm-omni", "huggingface-vllm-neuronx", "huggingface-sglang"),
    *("huggingface-llamacpp", "llama-cpp", "llama-cpp-arm64", "ray-serve"),
    *("huggingface-llm", "huggingface-llm-neuronx", "huggingface-tei", "huggingface-tei-cpu"),
    *("stabilityai", "sagemaker-tritonserver", "whisperx", "huggingface-neuron"),
)
_SERVERS: Final = (
    *("djl", "vllm", "sglang", "llama", "ray-serve", "stabilityai", "whisper"),
    *(f"huggingface-{server}" for server in ("vllm", "sglang", "llm", "llama", "tei")),
)
"""How families of servers for large models begin."""
UNLISTED: Final = {
    "source": "aws/deep-learning-containers@e0ecedea, docs/src/data/djl: published, but not known to the SDK",
    "djl-lmi": [
        "0.36.0-lmi28.0.0-cu130",
        "0.36.0-lmi26.0.0-cu130",
        "0.36.0-lmi25.0.0-cu130",
        "0.36.0-lmi24.0.0-cu129",
        "0.36.0-lmi23.0.0-cu129",
        "0.36.0-lmi22.0.0-cu129",
        "0.36.0-lmi21.0.0-cu129",
        "0.36.0-lmi20.0.0-cu128",
        "0.36.0-lmi19.0.0-cu128",
        "0.36.0-lmi18.0.0-cu128",
        "0.36.0-cpu-full",
        "0.35.0-cpu-full",
    ],
}
"""Of a server version whose registries the SDK knows."""


def table(wheel: Path) -> dict[str, Any]:
    """The table without its date."""
    registries: dict[str, Mapping[str, str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        families = {
            name: _family(name, json.loads(archive.read(f"{FOLDER}/{name}.json")), registries)
            for name in FAMILIES
        }
        accounts = _accounts(archive)
    version = wheel.name.split("-")[1]
    return {
        "source": f"sagemaker-core {version}, image_uri_config/*.json",
        "registries": registries,
        "families": families,
        "accounts": accounts,
        "unlisted": UNLISTED,
    }


def _accounts(archive: zipfile.ZipFile) -> dict[str, list[str]]:
    """Every account that has images of AWS's in a region, of whatever framework."""
    found: dict[str, set[str]] = {}
    for name in archive.namelist():
        if name.startswith(f"{FOLDER}/") and name.endswith(".json"):
            for region, account in _registered(json.loads(archive.read(name))):
                found.setdefault(region, set()).add(account)
    return {region: sorted(found[region]) for region in sorted(found) if region in _regions()}


def _registered(existing: Any) -> Iterator[tuple[str, str]]:
    if isinstance(existing, dict):
        yield from dict(existing.get("registries") or {}).items()
        existing = list(existing.values())
    if isinstance(existing, list):
        for item in existing:
            yield from _registered(item)


def _family(name: str, existing: dict[str, Any], registries: dict[str, Mapping[str, str]]) -> dict[str, Any]:
    scope = existing if "versions" in existing else existing["inference"]
    versions = {
        version: _version(name, version, entry, scope.get("processors"), registries)
        for version, entry in sorted(
            scope["versions"].items(), key=lambda item: _order(item[0]), reverse=True
        )
    }
    aliases = dict(scope.get("version_aliases") or {})
    latest = aliases.pop("latest", next(iter(versions)))
    return {"latest": latest, "aliases": aliases, "versions": versions}


def _version(
    name: str,
    version: str,
    entry: dict[str, Any],
    processors: list[str] | None,
    registries: dict[str, Mapping[str, str]],
) -> dict[str, Any]:
    if "repository" not in entry:
        # Of Hugging Face's frameworks: the entry of the one PyTorch version.
        (pytorch,) = (key for key in entry if key.startswith("pytorch"))
        prefix = f"{pytorch.removeprefix('pytorch')}-transformers{version}"
        entry = {"tag_prefix": prefix, **entry[pytorch]}
    # The SDK names regions that are not there, with accounts of others.
    known = {region: account for region, account in entry["registries"].items() if region in _regions()}
    at = next((key for key, existing in registries.items() if existing == known), "")
    if not at:
        at = f"map{len(registries) + 1}"
        registries[at] = dict(sorted(known.items()))
    return {
        "repository": entry["repository"],
        "tags": dict(_tags(name, entry, processors or entry.get("processors"))),
        "registries": at,
    }


def _tags(name: str, entry: dict[str, Any], processors: list[str] | None) -> Iterator[tuple[str, str]]:
    """Device and tag, put together as `sagemaker.core.image_uris.retrieve` does it."""
    if processors is None:
        yield _device(name), entry["tag_prefix"]
    for processor in processors or ():
        shown = processor if entry.get("processor_in_tag", True) else None
        if name == "sagemaker-tritonserver" and processor == "gpu":
            shown = None
        python = (entry.get("py_versions") or [None])[0]
        built = (entry.get("container_version") or {}).get(processor)
        if name == "huggingface-neuron":
            processor = shown = "neuron"
            built = f"{max(entry['sdk_versions'])}-{entry['container_version']['inf']}"
        if entry["repository"] == "huggingface-vllm-inference-neuronx":
            built = f"{max(entry['sdk_versions'])}-{built}"
        yield processor, "-".join(part for part in (entry["tag_prefix"], shown, python, built) if part)


def _device(name: str) -> str:
    """What the tags of a family run on that names no processor."""
    return "neuronx" if name.endswith("neuronx") else "gpu"


def _regions() -> tuple[str, ...]:
    return sagemaker_limits.names("regions")


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def written(table: dict[str, Any]) -> str:
    """One line a version and a region map, so that a change of one reads as one."""
    lines = ["{", *(f" {json.dumps(key)}: {json.dumps(table[key])}," for key in ("source", "date"))]
    lines += [' "registries": {', *_rows(table["registries"], "  "), " },", ' "families": {']
    families = []
    for name, existing in table["families"].items():
        head = {key: existing[key] for key in ("latest", "aliases")}
        start = f"  {json.dumps(name)}: {json.dumps(head)[:-1]}, " + '"versions": {'
        families.append("\n".join([start, *_rows(existing["versions"], "   "), "  }}"]))
    lines += [",\n".join(families), " },", ' "accounts": {', *_rows(table["accounts"], "  "), " },"]
    lines += [' "unlisted": {', *_rows(table["unlisted"], "  "), " }", "}"]
    return "\n".join(lines) + "\n"


def _rows(existing: Mapping[str, Any], indent: str) -> Iterator[str]:
    last = len(existing) - 1
    for index, (key, value) in enumerate(existing.items()):
        yield f"{indent}{json.dumps(key)}: {json.dumps(value)}{',' if index < last else ''}"


def missing(known: Mapping[str, Any], fresh: Mapping[str, Any]) -> list[str]:
    """What `fresh` has, and `known` has not or has otherwise: a line for each version of a family."""
    lines = []
    for name, family in fresh["families"].items():
        ours = known["families"].get(name, {"versions": {}, "latest": ""})
        for version, entry in family["versions"].items():
            image = _published(entry, fresh["registries"])
            existing = ours["versions"].get(version)
            if existing is None or _published(existing, known["registries"]) != image:
                was = "is missing" if existing is None else "differs"
                lines.append(
                    f"{name} {version} {was}: {entry['repository']}:{', '.join(entry['tags'].values())}"
                )
        if ours["latest"] != family["latest"]:
            lines.append(
                f"{name}: the latest version is {family['latest']}, not {ours['latest'] or 'unknown'}"
            )
    return lines


def new_families(wheel: Path) -> list[str]:
    """Families of model servers that the wheel has, and FAMILIES has not."""
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).stem for name in archive.namelist() if name.startswith(f"{FOLDER}/")}
    return sorted(name for name in names - {*FAMILIES} if name.startswith(_SERVERS))


def _published(entry: Mapping[str, Any], registries: Mapping[str, Any]) -> tuple[object, ...]:
    """Without the number of its registry map, which depends on the order of the families."""
    return entry["repository"], entry["tags"], registries[entry["registries"]]


def named_wheel() -> str:
    """The requirement of which the table is made: `sagemaker-core==2.27.0`."""
    name, version = json.loads(TABLE.read_text())["source"].split(",")[0].split()
    return f"{name}=={version}"


def _wheel(wanted: str) -> Path:
    """A file, a requirement, or the newest release."""
    if wanted.endswith(".whl"):
        return Path(wanted)
    return fetched(NEWEST if wanted == "newest" else wanted)


def main(arguments: list[str]) -> None:
    """Rewrite the table; its date moves only when something else does."""
    known = json.loads(TABLE.read_text())
    fresh = table(_wheel(arguments[0] if arguments else named_wheel()))
    if {key: value for key, value in known.items() if key != "date"} == fresh:
        print(f"{TABLE.name}: up to date")
        return
    dated = {**fresh, "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    TABLE.write_text(written(dated))
    print(f"{TABLE.name}: written", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
