"""The pages of images and options, from the tables that `lmi` itself looks them up in."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog import (
    amis,
    images,
    instances,
    options,
    packaged_prices,
    server_arguments,
    vllm_arguments,
)
from lmi_deploy.catalog.amis import AMIS
from lmi_deploy.recipe.option_descriptions import engine_options, values_text

_REGION = "us-east-1"
_DETAILED = "djl-lmi"

_IMAGES = """\
# Images and hosts

This page is generated from the table of images that `lmi` contains; a plan needs no network for it. `lmi images`
prints the same for your region:

<!-- run -->
```bash
lmi images                                   # the families, with the newest image of each
lmi images djl-lmi --region eu-west-1        # every version of one family, with its CUDA version and its address
lmi images djl-lmi --version 0.36.0          # one address alone, for scripts
```

`lmi images djl-lmi --source sdk` asks SageMaker's SDK instead (extra `[sagemaker]`).

## Which image a recipe gets

The engine decides the family ([engines](engines.md)). `container.version` picks the image. It
is the server's version (`0.36.0`), or a tag that AWS published in addition to those of the SDK (`0.36.0-lmi20`).
Without it, `lmi` takes the newest version that it knows. Set it if an upgrade of `lmi` must not change the image.
`container.image` is any image in your own ECR. Region and partition decide the registry's account and host name.
`lmi` refuses a version that does not exist and says why: `djl-deepspeed` ends with 0.27.0 because the server
removed DeepSpeed, and there is no image of 0.37.

**vLLM by version.** From server 0.35 on, engine vllm runs the asynchronous service. Before, it runs DJL's rolling
batch around vLLM; `handler: {builtin: djl_python.huggingface}` selects that on newer servers too. A server silently
drops options that its vLLM does not know, so `lmi validate` refuses them, by version ([options](options.md)).
Embeddings need 0.36.

## Which host an image needs

An image built on CUDA 13 fails on an older driver before its first log line, and an older image on the newest host
stays in `Creating`. So `lmi` chooses the host image (`container.host_ami`) by the CUDA version in the image's tag,
and refuses a pair that cannot work:

| Image | Host | Driver |
|---|---|---|
"""

_MORE = """
## Instance types

Types with local disks (g4dn, g5, g6, g7, p4d, p5, p6, trn and every type with a `d`) refuse a volume size. For the
others, `lmi` chooses one by the size of the weights.

`lmi` knows every type that SageMaker's API allows for an endpoint. If it lacks a fact about a type, it prints
`unknown` and does not guess; `instance_type: auto` does not choose that type.

| Devices | Types | Memory, devices and disks known | Not known |
|---|---:|---:|---|
{score}

Sources: {sources}.

`lmi instances` lists those with accelerators, `lmi instances --all` every one:

<!-- run -->
```bash
lmi instances                           # devices, memory, price with its date, and whether the region has the type
lmi instances --all --region eu-west-1  # types without accelerators, too
lmi instances --json                    # one line per type, for programs; null means unknown
```

`offered` is `yes` if SageMaker has a price for the type in the region. It is `no` if AWS's price list, which
`lmi catalog refresh` reads, has no price, or if EC2 does not have the type there. Else it is `unknown`.

## Prices

`lmi plan` asks AWS's price list. Without permission for that, it uses the local prices: those of the last
`lmi catalog refresh`, else the packaged ones, each with its date and source. It never takes the price of another region
or of EC2. `instance_type: auto`, `lmi init`, `lmi fit` and `lmi instances` use the local prices. They never choose a
type without a price as the cheapest. [Control costs](../how-to/control-costs.md) shows how to refresh them.

| Region | Packaged prices | Dates |
|---|---:|---|
{prices}
"""

_OPTIONS = """\
# Engine options

This page is generated from the tables that `lmi validate` uses to check the `options` of a recipe. A server silently
ignores an option that it does not know, so `lmi` refuses the option and names the versions that know it. `0.36.0/lmi27`
is the image `0.36.0-lmi27...`; a range without an end means "and newer". This page lists the values of the newest
version that knows the option; `lmi validate` uses the values of the recipe's image.

Without `container.version`, the recipe's image is the newest one, `{newest}`. `lmi` knows the arguments of vLLM up to
lmi{known}; it checks a newer image against lmi{known}, and says so.

Sources: {source} ({date}); {vllm} ({vllm_date}).

## Handlers of lmi

The handlers of `handler: {{template: ...}}` read these, in addition to the engine's own options.

| Handler | Options |
|---|---|
"""

_SERVER = """
## Keys of the server

These go under `properties`, without `option.`:

| Key | Values |
|---|---|
"""


_FIELDS = """
## Fields of JSON options

An option that contains a JSON object is checked field by field: vLLM refuses to start with a field that it does not
have. These are the fields of vLLM {version}; `lmi validate` takes those of the image that the recipe ships. In
`hf_overrides`, `rope_scaling`, `override_generation_config` and `limit_mm_per_prompt` other names are allowed, and
the types and ranges of the usual ones are checked.

| Field | Values |
|---|---|
"""


def images_page() -> str:
    """docs/reference/images.md, complete."""
    source, date = images.source()
    return "\n".join(
        [
            _IMAGES.rstrip("\n"),
            *_hosts(),
            *_MORE.format(
                score="\n".join(_score()),
                sources="; ".join(instances.sources()),
                prices="\n".join(_prices()),
            ).splitlines(),
            "",
            "## Families",
            "",
            f"Newest image of each family in {_REGION}. Source: {source} ({date}).",
            "",
            "| Family | Versions | Newest | CUDA | Image |",
            "|---|---:|---|---|---|",
            *(_family(family) for family in images.families()),
            "",
            f"## Versions of {_DETAILED}",
            "",
            "| Version | Device | CUDA | Tag |",
            "|---|---|---|---|",
            *(
                f"| {i.version} | {i.device} | {i.cuda} | `{i.tag}` |"
                for i in images.published(_DETAILED, _REGION)
            ),
            "",
            "`python -m tools.generate_images WHEEL` makes the table from a `sagemaker-core` wheel; a test compares",
            "the two.",
            "",
        ]
    )


def options_page() -> str:
    """docs/reference/options.md, complete."""
    source, date = options.source()
    vllm_source, vllm_date = vllm_arguments.source()
    head = _OPTIONS.format(
        source=source,
        date=date,
        vllm=vllm_source,
        vllm_date=vllm_date,
        newest=images.image("djl-lmi", "", _REGION).tag,
        known=vllm_arguments.images()[-1],
    )
    parts = [head.rstrip("\n")]
    parts += [f"| `{name}` | {_template(read)} |" for name, read in options.TEMPLATE_OPTIONS.items()]
    parts += _SERVER.splitlines()
    parts += [f"| `{key}` | {values_text(rule, '')} |" for key, rule in sorted(options.SERVER_KEYS.items())]
    for engine in options.engines():
        if options.newest(engine) not in options.versions():
            continue  # Ended before the first version of the table.
        parts += ["", f"## Engine {engine}", "", "| Option | Values | Server versions |", "|---|---|---|"]
        parts += _options(engine)
    for engine, server in server_arguments.SERVERS.items():
        parts += ["", f"## Engine {engine}", "", *_own_server(engine, server)]
    parts += [*_FIELDS.format(version=vllm_arguments.version(vllm_arguments.images()[-1])).splitlines()]
    parts += _fields()
    return "\n".join(parts) + "\n"


def _own_server(engine: str, server: str) -> Iterator[str]:
    """A row for each argument that any version of the image's own server has."""
    source, date = server_arguments.source(engine)
    yield f"Arguments of {server}'s own server. Source: {source}, {date}."
    yield from ("", "| Option | Values | Versions |", "|---|---|---|")
    yield from _options(engine)


def _score() -> Iterator[str]:
    every = [found for name in instances.names() if (found := instances.instance(name))]
    kinds = {"gpu": "GPU", "neuron": "Inferentia, Trainium", "gaudi": "Gaudi", "cpu": "none"}
    for kind, shown in kinds.items():
        types = [one for one in every if one.kind == kind]
        unknown = ", ".join(f"`{one.name}`" for one in types if not one.known)
        yield f"| {shown} | {len(types)} | {sum(one.known for one in types)} | {unknown} |"
    yield f"| all | {len(every)} | {sum(one.known for one in every)} | |"


def _prices() -> Iterator[str]:
    for region, found in sorted(packaged_prices.packaged().regions.items()):
        days = sorted(price.date for price in found.hourly.values() if price.date)
        span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "unknown"
        yield f"| {region} | {len(found.hourly)} | {span} |"


def _hosts() -> Iterator[str]:
    for cuda, shown in (("13.0", "cu13x"), ("12.0", "cu12x")):
        host = AMIS[amis.required_ami(cuda, "gpu")]
        yield f"| {shown} | `{host.name}` | {host.driver} |"
    yield "| older, or no CUDA in the tag | SageMaker's default | |"


def _family(family: str) -> str:
    newest = images.latest(family)
    count = len(images.versions(family))
    shown = next((i for i in images.published(family, _REGION) if i.version == newest), None)
    if shown is None:
        return f"| {family} | {count} | {newest} | | not in {_REGION} |"
    return f"| {family} | {count} | {newest} | {shown.cuda} | `{shown.repository}:{shown.tag}` |"


def _template(read: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(
        f"`{name}` ({', '.join(values)})" if values else f"`{name}`" for name, values in read.items()
    )


def _options(engine: str) -> Iterator[str]:
    """A row for each option that any version of the engine's server knows."""
    for option in engine_options(engine):
        yield f"| `{option.name}` | {option.values} | {option.versions} |"


def _fields() -> Iterator[str]:
    image = vllm_arguments.images()[-1]
    for table in vllm_arguments.tables():
        for name, rule in vllm_arguments.fields(table, image).items():
            values = {"list": "list", "text": "text", "any": ""}.get(rule.kind) or values_text(
                rule, rule.kind
            )
            yield f"| `{table}.{name}` | {'' if rule.kind == 'any' else values} |"
