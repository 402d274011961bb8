"""The output of the commands for recipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict

from lmi_deploy.cli.output_schema.command_output import CommandOutput, Document
from lmi_deploy.domain.sagemaker.exported_stack import RequiredObjects, StackFormat
from lmi_deploy.recipe.recipe_migration import RecipeEdit
from lmi_deploy.sizing.fit_assessment import Verdict


class InitResult(TypedDict):
    """`target` and what follows: only for a model, not for an example. `file`: not with `-o -`.
    `tensor_parallel_degree`: null for the engine's own.
    """

    recipe: str
    name: str
    target: NotRequired[str]
    region: NotRequired[str]
    engine: NotRequired[str]
    instance_type: NotRequired[str | None]
    tensor_parallel_degree: NotRequired[int | None]
    options: NotRequired[dict[str, Any]]
    verdict: NotRequired[str]
    notes: NotRequired[list[str]]
    file: NotRequired[str]


class ImportResult(TypedDict):
    recipe: str
    name: str
    notes: list[str]
    file: NotRequired[str]


class AdoptResult(TypedDict):
    """`recipe`, `name`: of a recipe that was written. `taken`, `refused` (why, or what to correct first): without
    --take. The rest: with --take.
    """

    endpoint: str
    region: str
    file: str
    notes: list[str]
    recipe: NotRequired[str]
    name: NotRequired[str]
    taken: NotRequired[bool]
    refused: NotRequired[str]
    deployment: NotRequired[str]
    target: NotRequired[str]
    account: NotRequired[str]
    changed: NotRequired[bool]


class AdoptPolicyResult(TypedDict):
    policy: Document


class MigrateResult(TypedDict):
    recipe: str
    version: str
    changes: list[RecipeEdit]
    written: bool


class ValidateResult(TypedDict):
    """`fit`: with --hub, the verdict of each recipe."""

    recipes: list[str]
    fit: NotRequired[dict[str, str]]


class FitRemedy(TypedDict):
    key: str
    value: str
    what: str
    usd_per_hour: NotRequired[float]


class FitFields(TypedDict):
    """Bytes are of one device."""

    verdict: Verdict
    reason: str
    model: str
    engine: str
    instance: str
    device: str
    devices: int
    degree: int
    context: int
    sequences: int
    kv_tokens: int
    max_context: int
    max_sequences: int
    usable: int
    budget: int
    outside: int
    reserve: int
    parts: dict[str, int]
    left: int
    needed: int
    remedies: list[FitRemedy]
    notes: list[str]


class RenderResult(TypedDict):
    folder: str
    files: list[str]
    digest: str


class ExportResult(TypedDict):
    """`file`: with --out, else `text`. `without_default`: the parameters that must be given."""

    deployment: str
    format: StackFormat
    file: NotRequired[str]
    text: NotRequired[str]
    uploaded: bool
    resources: list[str]
    parameters: list[str]
    without_default: list[str]
    objects: list[RequiredObjects]


class StepOutcome(TypedDict):
    step: str
    outcome: str
    seconds: float


class RehearseResult(TypedDict):
    """`folder`, `environment`: with --keep."""

    deployment: str
    target: str
    steps: list[StepOutcome]
    artifact: str
    engine: str
    stand_in: str
    replaced: list[str]
    proved: list[str]
    emulated: list[str]
    not_provable: list[str]
    seconds: float
    emulated_seconds: float
    cost: str
    folder: NotRequired[str]
    environment: NotRequired[dict[str, str]]


class CapacityRow(TypedDict):
    """Null: unknown."""

    region: str
    instance: str
    verdict: Literal["possible", "no", "unknown"]
    quota: int | None
    needed: int
    usd_per_hour: float | None
    price_date: str | None
    offered: Literal["yes", "no", "unknown"]
    quota_code: str | None
    reason: str


class CapacityResult(TypedDict):
    """`unread`: why a region, or its quotas, could not be read."""

    possible: int
    rows: int
    unread: dict[str, str]
    free_capacity: Literal["unknown"]


class SchemaResult(TypedDict):
    schema: Document


OUTPUTS: Final[Mapping[str, CommandOutput]] = {
    "init": CommandOutput(results=(InitResult,)),
    "import": CommandOutput(results=(ImportResult,)),
    "adopt": CommandOutput(results=(AdoptResult, AdoptPolicyResult)),
    "migrate": CommandOutput(results=(MigrateResult,)),
    "validate": CommandOutput(results=(ValidateResult,)),
    "fit": CommandOutput(results=(FitFields,)),
    "export": CommandOutput(results=(ExportResult,)),
    "render": CommandOutput(results=(RenderResult,)),
    "rehearse": CommandOutput(results=(RehearseResult,)),
    "capacity": CommandOutput(results=(CapacityResult,), rows=(CapacityRow,)),
    "schema": CommandOutput(results=(SchemaResult,)),
}
