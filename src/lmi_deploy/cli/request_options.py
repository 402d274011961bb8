"""The options of `lmi bench run` that say what is sent, and the requests that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lmi_deploy.api.input_files import read_bytes, read_text
from lmi_deploy.api.load_measurement import RequestOptions
from lmi_deploy.bench.prompt_files import FORMS, BenchRequest, read_requests
from lmi_deploy.bench.request_images import image_size, synthetic_images
from lmi_deploy.bench.request_target import RequestForm
from lmi_deploy.bench.synthetic_prompts import PromptShape
from lmi_deploy.cli.shared_options import parameters_option
from lmi_deploy.domain.inference_http import ImageFile, read_image
from lmi_deploy.errors import UsageRefused

if TYPE_CHECKING:
    pass


REQUEST_OPTIONS: Final = (
    click.option(
        "--prompt",
        help="Send this prompt each time.  [default: one about the sea; the deployment's probe, if it has an image or "
        "is no prompt]",
    ),
    click.option(
        "--prompts",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Requests from a file: a prompt a line, JSON Lines, ShareGPT, or data capture of SageMaker.",
    ),
    click.option(
        "--form",
        type=click.Choice(FORMS),
        default="auto",
        show_default=True,
        help="The form of --prompts; auto recognizes it.",
    ),
    click.option(
        "--input-tokens",
        type=click.IntRange(1, 1_000_000),
        metavar="N",
        help="Synthetic prompts of exactly N tokens, counted by the model's tokenizer.",
    ),
    click.option(
        "--prefix-tokens",
        type=click.IntRange(1, 1_000_000),
        metavar="N",
        help="With --input-tokens: before them N tokens that prompts share, to measure prefix caching.",
    ),
    click.option(
        "--prefixes",
        type=click.IntRange(1, 10_000),
        metavar="K",
        help="Number of different prefixes of --prefix-tokens, used in turn.  [default: 1]",
    ),
    click.option(
        "--tokenizer",
        metavar="NAME",
        help="With --input-tokens: the model of the Hub, or the folder or file, that has tokenizer.json.  "
        "[default: that of the deployment's model, or of --model]",
    ),
    click.option(
        "--image",
        "images",
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A PNG, JPEG or WebP image that a prompt gets; can be repeated, the prompts get them in turn.",
    ),
    click.option(
        "--image-size",
        metavar="WxH",
        help="Synthetic images of that size in pixels instead, such as 512x512.",
    ),
    click.option(
        "--images-per-request",
        type=click.IntRange(1, 100),
        metavar="N",
        help="With --image or --image-size: images of each request.  [default: 1]",
    ),
    click.option(
        "--output-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Longest answer of each request, in tokens.",
    ),
    click.option(
        "--exact",
        is_flag=True,
        help="Answers of exactly --output-tokens (min_tokens, ignore_eos). A report in which more than 1 % of them "
        "have another length is INVALID.",
    ),
    click.option(
        "--plain", is_flag=True, help="Let the model continue the prompts, without a chat template."
    ),
    click.option("--stream/--no-stream", default=True, show_default=True, help="Ask for streams."),
    parameters_option,
)

REQUEST_NAMES: Final = (
    *("prompt", "prompts", "form", "input_tokens", "prefix_tokens", "prefixes", "tokenizer"),
    *("images", "image_size", "images_per_request"),
    *("output_tokens", "exact", "plain", "stream", "parameters"),
)


def sending_of(given: Mapping[str, Any], seed: int) -> RequestOptions:
    """UsageRefused of options that contradict each other, and of a file that cannot be read."""
    form = RequestForm(
        stream=given["stream"],
        output_tokens=given["output_tokens"],
        exact=given["exact"],
        chat=not given["plain"],
        parameters=given["parameters"],
    )
    if form.exact and form.output_tokens is None and not given["prompts"]:
        raise UsageRefused("--exact needs a length", hint="add --output-tokens N")
    _require_one_source(given)
    options = _without_images(given, form, seed)
    images, kind = _images(given, seed)
    return replace(options, images=images, images_each=given["images_per_request"] or 1, images_kind=kind)


def _images(given: Mapping[str, Any], seed: int) -> tuple[tuple[ImageFile, ...], str]:
    paths, size = given["images"], given["image_size"]
    if paths and size:
        raise UsageRefused("--image and --image-size cannot be combined", hint="use one of them")
    if not paths and not size:
        if given["images_per_request"]:
            hint = "add --image FILE or --image-size WxH"
            raise UsageRefused("--images-per-request has no effect without images", hint=hint)
        return (), ""
    if given["plain"]:
        raise UsageRefused("only a chat has images", hint="omit --plain")
    if size:
        return synthetic_images(image_size(size), seed=seed), f"synthetic images of {size}"
    return tuple(read_image(read_bytes(path), str(path)) for path in paths), "files"


def _without_images(given: Mapping[str, Any], form: RequestForm, seed: int) -> RequestOptions:
    if given["input_tokens"]:
        shape = PromptShape(
            tokens=given["input_tokens"],
            prefix_tokens=given["prefix_tokens"] or 0,
            prefixes=given["prefixes"] or 1,
        )
        named = given["tokenizer"] or ""
        return RequestOptions(requests=(), form=form, shape=shape, tokenizer=named, seed=seed)
    return _given_requests(given["prompt"], given["prompts"], given["form"], form)


def _require_one_source(given: Mapping[str, Any]) -> None:
    sources = [f"--{name.replace('_', '-')}" for name in ("prompt", "prompts", "input_tokens") if given[name]]
    if len(sources) > 1:
        raise UsageRefused(f"{' and '.join(sources)} cannot be combined", hint="use one of them")
    for name, other in (
        ("prefix_tokens", "input_tokens"),
        ("prefixes", "prefix_tokens"),
        ("tokenizer", "input_tokens"),
    ):
        if given[name] and not given[other]:
            flag, needed = f"--{name.replace('_', '-')}", f"--{other.replace('_', '-')}"
            raise UsageRefused(f"{flag} has no effect without {needed}", hint=f"add {needed} N")


def _given_requests(
    prompt: str | None, prompts: Path | None, form: str, asked: RequestForm
) -> RequestOptions:
    if prompts is None:
        if not prompt:
            return RequestOptions(form=asked)
        return RequestOptions(requests=(BenchRequest(prompt=prompt),), form=asked)
    requests = read_requests(read_text(prompts), str(prompts), form)
    if asked.exact and any(asked.tokens_of(one) is None for one in requests if one.body is None):
        raise UsageRefused("--exact needs a length", hint="add --output-tokens N")
    return RequestOptions(requests=requests, source=str(prompts), form=asked)
