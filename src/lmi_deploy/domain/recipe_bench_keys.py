"""The recipe's group `bench`: an experiment that `lmi bench RECIPE` runs."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated, Literal

from lmi_deploy.domain.recipe_key_types import (
    Doc,
    EnumOf,
    Integer,
    ListOf,
    Named,
    Number,
    OneLine,
    PairsOf,
    Seconds,
    ValuesByName,
    VariantsByName,
)
from lmi_deploy.domain.settings_digest import digest_tag

WORKLOAD = ("concurrency", "rate", "input_tokens", "output_tokens", "batch")
"""Names in `bench.matrix` that change what is sent; any other name is a key of the recipe."""


@digest_tag("BenchVariant")
@dataclass(frozen=True, slots=True, kw_only=True)
class BenchVariant:
    """What is deployed: `recipe` relative to the recipe with `bench`, empty for that recipe itself. `factors` are its
    columns in the tables, instead of its name.
    """

    name: str
    recipe: str = ""
    overlay: str = ""
    sets: tuple[tuple[str, str], ...] = ()
    factors: tuple[tuple[str, str], ...] = ()


@digest_tag("Bench")
@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    variants: Annotated[
        tuple[BenchVariant, ...],
        VariantsByName(most=32),
        Doc(
            "What is compared, by name: an overlay of this recipe, another recipe (`other.yaml`), or a group of "
            "`recipe`, `overlay`, `set` and `factors`. By default this recipe.",
            "{new: {}, old: old.yaml}",
        ),
    ] = ()
    instance_types: Annotated[
        tuple[str, ...],
        ListOf(EnumOf("instance_types", "instance type")),
        Doc("Each variant is measured on each of these.", "[ml.g4dn.2xlarge, ml.p3.2xlarge]"),
    ] = ()
    matrix: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...],
        ValuesByName(most=8),
        Doc(
            "Values that are all combined: of `concurrency`, `rate`, `input_tokens`, `output_tokens` and `batch`, or "
            "of any key of the recipe, such as `options.dtype`.",
            "{concurrency: [1, 2, 4]}",
        ),
    ] = ()
    baseline: Annotated[
        str | None,
        OneLine("value of a factor"),
        Doc("The variant, or the value of another factor, that the others are compared with.", "old"),
    ] = None
    repeats: Annotated[
        int, Integer(1, 100), Doc("How often each cell is measured; a cell's measurements are pooled.", "3")
    ] = 1
    order: Annotated[
        Literal["interleaved", "blocked"],
        Doc(
            "`interleaved`: each repeat deploys again, in a new random order. `blocked`: each variant is deployed "
            "once, in the order of the recipe.",
            "blocked",
        ),
    ] = "interleaved"
    seed: Annotated[int, Integer(0, 2**31), Doc("Of the order, the schedules and the requests.", "7")] = 0
    layout: Annotated[
        Literal["summary", "sweep", "percentiles", "factorial", "grid", "cost"],
        Doc("The first tables of the report (`lmi docs run-an-experiment`).", "sweep"),
    ] = "summary"
    prompt: Annotated[str | None, Named("text"), Doc("The prompt of each request.", "Say OK")] = None
    prompts: Annotated[
        str | None,
        OneLine("path, relative to the recipe"),
        Doc("A file with the requests, as of `lmi bench --prompts`.", "prompts.jsonl"),
    ] = None
    body: Annotated[
        str | None,
        Named("text"),
        Doc(
            "The whole body of each request. In JSON the values `{prompt}` and `{output_tokens}` are replaced by those "
            "of the cell.",
            '\'{"inputs": "{prompt}"}\'',
        ),
    ] = None
    content_type: Annotated[str, OneLine("media type"), Doc("The media type of `body`.", "text/plain")] = (
        "application/json"
    )
    batch: Annotated[
        int | None,
        Integer(1, 4096),
        Doc("Items of a request: `inputs` of the JSON body becomes a list of it, so many times.", "6"),
    ] = None
    input_tokens: Annotated[
        int | None,
        Integer(1, 1_000_000),
        Doc(
            "Synthetic prompts of exactly so many tokens, counted by the model's tokenizer; without a tokenizer.json, "
            "of so many times the word `the`.",
            "200",
        ),
    ] = None
    prefix_tokens: Annotated[
        int | None,
        Integer(1, 1_000_000),
        Doc("Tokens before them that prompts share, to measure prefix caching.", "1000"),
    ] = None
    prefixes: Annotated[
        int | None, Integer(1, 10_000), Doc("Number of different prefixes, used in turn; 1 by default.", "4")
    ] = None
    tokenizer: Annotated[
        str | None,
        OneLine("model, folder or file"),
        Doc("Counts `input_tokens`, instead of that of the deployed model.", "EleutherAI/gpt-j-6b"),
    ] = None
    images: Annotated[
        tuple[str, ...],
        ListOf(OneLine("path, relative to the recipe")),
        Doc("PNG, JPEG or WebP files that the prompts get in turn.", "[cat.png, dog.jpg]"),
    ] = ()
    image_size: Annotated[
        str | None,
        OneLine("size such as 512x512"),
        Doc(
            "Each prompt gets a synthetic image of that width and height in pixels, instead of `images`.",
            "512x512",
        ),
    ] = None
    images_per_request: Annotated[
        int | None, Integer(1, 100), Doc("Number of images in a request; 1 by default.", "2")
    ] = None
    output_tokens: Annotated[
        int | None, Integer(1, 1_000_000), Doc("Longest answer of each request, in tokens.", "100")
    ] = None
    exact: Annotated[bool, Doc("Answers of exactly `output_tokens`.", "true")] = False
    chat: Annotated[
        bool, Doc("Send prompts as messages of a user, if the model has a chat template.", "false")
    ] = True
    stream: Annotated[bool, Doc("Ask for streams.", "true")] = False
    parameters: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("text"),
        Doc("Parameters of each request; values as JSON.", "{temperature: 0}"),
    ] = ()
    concurrency: Annotated[
        int | None, Integer(1, 4096), Doc("Closed loop: requests that are kept running; 1 by default.", "4")
    ] = None
    rate: Annotated[
        float | None,
        Number(0.001, 100_000),
        Doc("Open loop: requests a second, instead of `concurrency`.", "2.5"),
    ] = None
    arrivals: Annotated[
        Literal["constant", "poisson", "gamma"], Doc("The gaps between requests of `rate`.", "constant")
    ] = "poisson"
    ramp_to: Annotated[
        float | None,
        Number(0.001, 100_000),
        Doc(
            "After the warm-up the load changes evenly to this rate or concurrency, over `duration`. The report has a "
            "table by parts of the ramp.",
            "64",
        ),
    ] = None
    ramp_steps: Annotated[
        int | None,
        Integer(2, 100),
        Doc("Steps of a ramp of `concurrency`, of equal time; by default 10, or one a client.", "8"),
    ] = None
    requests: Annotated[
        int | None, Integer(1, 10_000_000), Doc("A cell ends after so many requests.", "500")
    ] = None
    duration: Annotated[int, Seconds(1, 86_400), Doc("Longest time of a cell, after the warm-up.", "2m")] = 30
    warmup: Annotated[
        int | None,
        Integer(0, 1_000_000),
        Doc(
            "Requests of a cell that do not count; by default until latencies are steady, at most 30 s.", "20"
        ),
    ] = None
    timeout: Annotated[int, Seconds(1, 3600), Doc("A request fails after this time without data.", "60")] = (
        120
    )
    objectives: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("text"),
        Doc("Objectives, as of `lmi bench --objective`.", "{p99_ms: 50}"),
    ] = ()
    confidence: Annotated[float, Number(0.5, 0.9999), Doc("Of intervals and verdicts.", "0.99")] = 0.95
    via: Annotated[
        Literal["here", "job"],
        Doc("What sends the load: this machine, or the machines of a job inside AWS.", "job"),
    ] = "here"
    instances: Annotated[
        int | None,
        Integer(1, 100),
        Doc("With `via: job`: number of machines that share each load; 1 by default.", "4"),
    ] = None
    job_instance_type: Annotated[
        str | None,
        EnumOf("job_instance_types", "processing instance type"),
        Doc(
            "With `via: job`: SageMaker processing instance type; by default ml.c5.xlarge. The client uses one core.",
            "ml.c5.2xlarge",
        ),
    ] = None
    job_role: Annotated[
        str | None,
        Named("role"),
        Doc(
            "With `via: job`: the role of the job; by default `lmi-load-job`. `lmi iam` prints its policy.",
            "arn:aws:iam::123456789012:role/load-job",
        ),
    ] = None
    job_time_limit: Annotated[
        int | None,
        Seconds(60, 432_000),
        Doc(
            "With `via: job`: SageMaker stops the job after this time; by default after the longest time that its "
            "loads may take.",
            "1h",
        ),
    ] = None
