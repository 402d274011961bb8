"""`lmi fit`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.fit_request import read_fit_request
from lmi_deploy.cli.shared_options import json_option, recipe_options
from lmi_deploy.errors import UsageRefused
from lmi_deploy.sizing.sizing_request import ENGINES
from lmi_deploy.ui.fit_text import fit_lines
from lmi_deploy.workflows.fit import FitRequest, FitResult, check_fit

EXIT = {"fits": 0, "tight": 0, "unknown": 1, "does-not-fit": 2}


@click.command("fit")
@click.argument("what", metavar="RECIPE|MODEL_ID|FOLDER")
@click.option(
    "--engine",
    type=click.Choice([*ENGINES]),
    help="The inference engine.  [default: the recipe's, else vllm]",
)
@click.option("--version", metavar="V", help="Version of DJLServing (0.36.0-lmi27) or of vLLM (vllm-0.11.0).")
@click.option("--instance", metavar="TYPE", help="SageMaker instance type, such as ml.g5.12xlarge.")
@click.option("--gpu", metavar="NAME", help="Name of an accelerator, such as L4, A100-80GB or RTX4090.")
@click.option(
    "--gpus",
    type=click.IntRange(1, 1024),
    default=1,
    metavar="N",
    help="Number of these accelerators.  [default: 1]",
)
@click.option(
    "--degree", type=click.IntRange(1, 1024), metavar="N", help="Number of devices that share the model."
)
@click.option(
    "--context", type=click.IntRange(1), metavar="L", help="Length of the longest sequence in tokens."
)
@click.option(
    "--sequences",
    type=click.IntRange(1),
    metavar="N",
    help="Number of sequences that must fit at once.  [default: 1]",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="K=V",
    help="An option of the engine (option.K); can be repeated.",
)
@click.option(
    "--revision", default="main", show_default=True, help="Branch, tag or commit of a model on the Hub."
)
@recipe_options
@json_option
def command(*, what: str, overlay: str | None, sets: tuple[str, ...], as_json: bool, **flags: Any) -> int:
    """Compute whether a model fits into the memory of an instance type, of GPUs, or of this machine.

    lmi prints the memory that each part needs on one device, the verdict, the longest context, and changes that make
    the model fit (`lmi docs sizing` explains the lines). It reads config.json and the headers of the safetensors
    files, and downloads no weights. Exit codes: 0 if the model fits (`fits`, `tight`), 2 if it does not, 1 if lmi
    cannot tell (`unknown`).
    """
    if flags["instance"] and flags["gpu"]:
        raise UsageRefused("--instance and --gpu cannot be combined", hint="name one of them")
    context = open_context(as_json=as_json)
    fit_request = _with_flags(read_fit_request(what, context, overlay=overlay, sets=sets), flags)
    outcome = check_fit(fit_request, context.deps)
    fields = result_fields(fit_request, outcome)
    context.view.words(fit_lines(fields))
    context.view.result(fields)
    return EXIT[outcome.fit.verdict]


def _with_flags(fit_request: FitRequest, flags: dict[str, Any]) -> FitRequest:
    options = dict(fit_request.options)
    for option in flags["options"]:
        key, found, value = option.partition("=")
        if not found or not key.strip():
            raise UsageRefused(
                f"--option {option}: not KEY=VALUE", hint="write for example --option kv_cache_dtype=fp8"
            )
        options[key.strip()] = value
    changes = {
        key: flags[key]
        for key in ("engine", "version", "degree", "context", "sequences")
        if flags[key] is not None
    }
    if flags["instance"]:
        changes |= {"instances": (flags["instance"],)}
    if flags["gpu"]:
        changes |= {"gpu": flags["gpu"], "gpus": flags["gpus"]}
    if flags["revision"] != "main":
        changes |= {"revision": flags["revision"]}
    return replace(fit_request, options=options, **changes)


def result_fields(fit_request: FitRequest, outcome: FitResult) -> dict[str, Any]:
    """The result as JSON has it; bytes are of one device."""
    found, devices = outcome.fit, outcome.fit.devices
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "model": fit_request.model_id,
        "engine": found.engine or fit_request.engine,
        "instance": devices.instance if devices else "",
        "device": devices.name if devices else "",
        "devices": devices.count if devices else 0,
        "degree": found.degree,
        "context": found.context,
        "sequences": found.sequences,
        "kv_tokens": found.kv_tokens,
        "max_context": found.max_context,
        "max_sequences": found.max_sequences,
        "usable": devices.memory // devices.cores if devices else 0,
        "budget": found.budget,
        "outside": found.outside,
        "reserve": found.reserve,
        "parts": {**found.parts, **({"kv_cache": max(0, found.cache)} if found.context else {})},
        "left": found.cache,
        "needed": found.needed,
        "remedies": [
            {key: value for key, value in asdict(one).items() if value is not None}
            for one in outcome.remedies
        ],
        "notes": list(outcome.notes),
    }
