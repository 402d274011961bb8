"""What is rehearsed of a recipe, and with which model; what that proved, what was emulated, and what no rehearsal can
prove.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.gathered_facts import FileEntry, TensorHeader
from lmi_deploy.domain.number_text import seconds_text, size_text
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.errors import UsageRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInModel:
    """`copied` are files of the model itself, `written` texts by path, `tensors` the weights by file."""

    copied: tuple[FileEntry, ...]
    written: Mapping[str, str]
    tensors: Mapping[str, tuple[TensorHeader, ...]]
    cut: Mapping[str, tuple[Any, Any]]
    """The keys at the top of config.json that changed: before and after."""
    unlikely: tuple[int, ...]
    """Tokens whose rows of the embedding are zeros, so that a greedy answer is a text: marks, and spaces of our
    tokenizer.
    """
    own_tokenizer: bool


EMULATED_ACCOUNT: Final = "123456789012"
_OWN_REGISTRY: Final = re.compile(r"^\d{12}\.dkr\.ecr\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalStep:
    """A step that succeeded; `seconds` on this machine."""

    name: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    deployment: str
    target: str
    steps: tuple[RehearsalStep, ...]
    artifact: str
    """The digest of the files that were deployed beside the weights: that of the recipe's own artifact."""
    files: tuple[str, ...]
    engine: str
    stand_in: str
    """What replaced the engine; empty: the engine itself ran."""
    replaced: tuple[str, ...]
    """Lines of serving.properties that the stand-in's container gets in another form."""
    cut: Mapping[str, tuple[Any, Any]]
    """The keys of config.json that the stand-in model changes: before and after."""
    own_tokenizer: bool
    """Whether the stand-in model has the tokenizer of the model itself."""
    real_size: int
    """Bytes of the model's weights."""
    size: int
    """Bytes of the stand-in's."""
    estimate: Estimate
    emulated_seconds: float
    price: Price | None
    """Of an hour of the first instance type; None: unknown, or nothing is billed."""
    count: int
    """Instances at the start."""
    seconds: float
    unproved: tuple[str, ...]
    compiled: bool = False
    """Whether what was served was compiled ahead of time."""

    @property
    def proved(self) -> tuple[str, ...]:
        ran = f"engine {self.engine} itself, on a CPU, loads a model of this architecture with these options"
        started = "the server starts with these files, options and variables, on a stand-in for the engine"
        fit = self.estimate.figure("fit")
        return (
            f"the files of the artifact ({', '.join(self.files)}) are those that `lmi render` writes; digest "
            f"{self.artifact[:10]}" + (", byte for byte in the bucket" if self.target == "sagemaker" else ""),
            f"{started if self.stand_in else ran}, and answers",
            *(
                ("the compile script runs on a model of this architecture, and what it writes is served",)
                if self.compiled
                else ()
            ),
            *((f"the real model, by calculation: {fit}",) if fit and not _is_unknown(fit) else ()),
            *(
                ("the permissions that `lmi iam` prints suffice: every call was checked against them",)
                if self.target == "sagemaker"
                else ()
            ),
            "create, request, update, roll back and delete work in this order",
        )

    @property
    def emulated(self) -> tuple[str, ...]:
        cut = ", ".join(f"{key} {old} -> {new}" for key, (old, new) in list(self.cut.items())[:4])
        tokenizer = "its own tokenizer" if self.own_tokenizer else "a tokenizer of bytes"
        return (
            *(("SageMaker, S3, IAM and CloudWatch, by lmi emulator",) if self.target == "sagemaker" else ()),
            *((self.stand_in,) if self.stand_in else ()),
            *(
                (f"in the stand-in's container, serving.properties has {'; '.join(self.replaced)}",)
                if self.replaced
                else ()
            ),
            *(
                (
                    f"the model: {size_text(self.size)} of random weights for {size_text(self.real_size)}, "
                    f"{tokenizer}" + (f" ({cut})" if cut else ""),
                )
                if self.size != self.real_size
                else ()
            ),
        )

    @property
    def not_provable(self) -> tuple[str, ...]:
        fit = self.estimate.figure("fit")
        return (*self.unproved, *((f"that the model fits: {fit}",) if _is_unknown(fit) else ()))

    @property
    def cost(self) -> str:
        """What the same minutes would have cost there; empty if nothing is billed."""
        if self.target != "sagemaker":
            return ""
        if self.price is None:
            return "there: no source has the price of this instance type"
        amount = self.price.hourly * self.count * self.emulated_seconds / 3600
        return (
            f"there: at least {format_price(amount, self.price.currency)} for {seconds_text(self.emulated_seconds)} "
            f"of instances at {format_price(self.price.hourly, self.price.currency)} an hour; loading the real weights "
            "takes longer"
        )

    @property
    def fields(self) -> dict[str, Any]:
        """For a program."""
        return {
            "deployment": self.deployment,
            "target": self.target,
            "steps": [
                {"step": one.name, "outcome": one.outcome, "seconds": round(one.seconds, 2)}
                for one in self.steps
            ],
            "artifact": self.artifact,
            "engine": self.engine,
            "stand_in": self.stand_in,
            "replaced": list(self.replaced),
            "proved": list(self.proved),
            "emulated": list(self.emulated),
            "not_provable": list(self.not_provable),
            "seconds": round(self.seconds, 2),
            "emulated_seconds": round(self.emulated_seconds, 1),
            "cost": self.cost,
        }


def _is_unknown(fit: str) -> bool:
    """Whether the figure of a plan is no verdict."""
    return fit.startswith("cannot tell")


def lacks_adapters(recipe: Recipe) -> bool:
    """Whether the rehearsal leaves out the LoRA adapters: a real engine refuses them beside a smaller model."""
    return bool(recipe.adapters) and recipe.endpoint.target == "local" and recipe.engine != "custom"


def not_provable(recipe: Recipe, *, is_replaced: bool) -> tuple[str, ...]:
    """What only a real deployment shows."""
    return tuple(_not_provable(recipe, is_replaced=is_replaced))


def _not_provable(recipe: Recipe, *, is_replaced: bool) -> Iterator[str]:
    yield "that the answers are right" + (
        " (probe.expect was not checked)" if recipe.probe and recipe.probe.expect else ""
    )
    if lacks_adapters(recipe):
        yield "the LoRA adapters: they do not fit the stand-in model, and were left out"
    yield "speed, and memory of the devices" + (": no device was used" if recipe.instance_type else "")
    if recipe.container.build and recipe.endpoint.target == "sagemaker":
        yield "that the image builds, and runs as its stand-in does"
    if recipe.endpoint.candidate:
        yield "the candidate: it was left out (rehearse it alone, as a recipe or by --overlay and --set)"
    if recipe.compile:
        yield "the compile in its image and on its instance type: its packages, time, memory, devices"
    if is_replaced:
        yield "that the engine itself starts with these options in this image"
    if recipe.endpoint.target == "sagemaker":
        yield "capacity and quotas of your account, the pull of the image, the time to load the real weights"
    if recipe.weights.via == "job":
        yield "the transfer job: the weights came from this machine"
    if any(key in ("quantize", "quantization") for key, _ in recipe.options):
        yield "the effect of the quantization"


def rehearsed(recipe: Recipe) -> Recipe:
    """The recipe without what random weights and an emulated account cannot do: the text that the probe expects, a
    transfer by a job, the number of a real account in the name of a role or of an own image, adapters of a real
    engine here, which do not fit a smaller model, and a candidate, whose model has no stand-in.
    """
    if recipe.model_id.startswith(SCHEME):
        raise UsageRefused(
            f"model_id: {recipe.model_id}: a model in S3 cannot be rehearsed: the emulated account does not have it",
            hint="copy it (aws s3 sync), and rehearse with --set model_id=./FOLDER",
        )
    probe = replace(recipe.probe, expect=None) if recipe.probe else None
    role = (recipe.endpoint.role or "").rpartition("/")[2] or None
    weights = (
        replace(recipe.weights, via="stream", job=None) if recipe.weights.via == "job" else recipe.weights
    )
    endpoint = replace(recipe.endpoint, role=role, candidate=None)
    adapters = () if lacks_adapters(recipe) else recipe.adapters
    container = recipe.container
    if container.build and recipe.endpoint.target == "sagemaker":
        # Nothing is built: a stand-in runs for the image.
        region = recipe.endpoint.region or "us-east-1"
        image = f"{EMULATED_ACCOUNT}.dkr.ecr.{region}.amazonaws.com/{recipe.name}:built"
        container = replace(container, build=None, image=image)
    elif container.image and recipe.engine == "custom":
        # SageMaker pulls no image of another account unless its repository allows it.
        container = replace(
            container, image=_OWN_REGISTRY.sub(f"{EMULATED_ACCOUNT}.dkr.ecr.", container.image)
        )
    return replace(
        recipe,
        probe=probe,
        weights=weights,
        endpoint=endpoint,
        adapters=adapters,
        container=container,
        candidate=None,
    )
