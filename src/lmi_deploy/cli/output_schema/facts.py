"""The output of the commands for this machine, for facts and for help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypedDict

from lmi_deploy.bench.report import Judgement
from lmi_deploy.cli.output_schema.command_output import CommandOutput, Document, ServerResult
from lmi_deploy.domain.documentation import PageHit
from lmi_deploy.domain.setup_findings import FindingState
from lmi_deploy.sizing.fit_assessment import Verdict


class ServeResult(TypedDict):
    folder: str
    exit_code: int


class ReadyEmulator(TypedDict):
    """The first line of `lmi emulator`: the variables that its clients need."""

    environment: dict[str, str]


class HubModel(TypedDict):
    model: str
    commit: str
    files: int
    bytes: int


class ReadyHub(TypedDict):
    """The first line of `lmi hub serve`."""

    url: str
    needs_token: bool
    models: list[HubModel]


class HubResult(ServerResult):
    files_sent: int
    bytes_sent: int


class CacheRow(TypedDict):
    name: str
    kind: str
    size: int
    path: str


class CacheCount(TypedDict):
    entries: int
    bytes: int


class CacheRemoved(TypedDict):
    removed: list[str]
    bytes: int


class ImageRow(TypedDict):
    """One image, or the newest of a family; with `--source sdk`, what the SDK says."""

    family: str
    version: NotRequired[str]
    versions: NotRequired[int]
    latest: NotRequired[str]
    device: NotRequired[str]
    cuda: NotRequired[str]
    image: NotRequired[str]


class ImageResult(TypedDict):
    """`images FAMILY --version VERSION`."""

    family: str
    version: str
    device: str
    cuda: str
    image: str


class ImageCount(TypedDict):
    images: int
    region: str
    source: str
    date: str


class Offer(TypedDict):
    offered: Literal["yes", "no", "unknown"]
    usd_per_hour: float | None
    price_date: str | None


class InstanceRow(Offer):
    """Null: unknown, or it has no accelerator."""

    instance: str
    device: str | None
    devices: int | None
    device_gib: float | None
    memory_gib: float | None
    vcpu: int | None
    nvme_gb: int | None
    network_gbps: float | None


class FittingInstanceRow(Offer):
    instance: str
    device: str
    devices: int
    degree: int
    verdict: Verdict
    max_context: int
    kv_tokens: int
    usd_per_cache_gib: float | None


class MeasuredInstanceRow(TypedDict):
    """Null: unknown."""

    instance: str
    instances: int
    point: str
    requests_per_s: float | None
    output_tokens_per_s: float | None
    per_million_output_tokens: float | None
    per_million_input_tokens: float | None
    per_million_requests: float | None
    currency: str | None
    objectives: Judgement | None
    price_date: str | None
    report: str


class PriceSource(TypedDict):
    source: str
    date: str


class InstanceCount(TypedDict):
    instances: int
    region: str
    prices: PriceSource | None
    warnings: list[str]


class MeasuredCount(TypedDict):
    deployments: int
    reports: list[str]


class TableRow(TypedDict):
    table: str
    region: str
    entries: str
    date: str
    source: str


class TableCount(TypedDict):
    tables: int
    warnings: list[str]


class RefreshedPrices(TypedDict):
    """`changed`, `new` and `gone` are instance types."""

    region: str
    date: str
    prices: int
    changed: list[str]
    new: list[str]
    gone: list[str]


class RefreshResult(TypedDict):
    refreshed: list[RefreshedPrices]


IamResult = TypedDict(
    "IamResult",
    {
        "deployer": NotRequired[Document],
        "execution": NotRequired[Document],
        "job": NotRequired[Document],
        "compile": NotRequired[Document],
        "trust": NotRequired[Document],
        "scheduler": NotRequired[Document],
        "load": NotRequired[Document],
        "scheduler-trust": NotRequired[Document],
    },
)


class SetupChange(TypedDict):
    change: str
    of: str
    policy: str


class NotNeeded(TypedDict):
    policy: str
    statement: str


class BootstrapResult(TypedDict):
    """`roles`: their ARNs by name. `not_needed`: what policies allow beyond the recipe, kept unless `pruned`."""

    account: str
    deleted: bool
    pruned: bool
    not_needed: list[NotNeeded]
    changes: list[SetupChange]
    bucket: str
    roles: dict[str, str]
    deployer_policy: str


class BootstrapPolicyResult(TypedDict):
    bootstrap: Document


class FindingRow(TypedDict):
    """`remedy` is empty if there is nothing to do."""

    area: str
    check: str
    state: FindingState
    text: str
    remedy: str


class DoctorResult(TypedDict):
    states: dict[FindingState, int]


class Meaning(TypedDict):
    """`page`: the page of `lmi docs` with all of its kind."""

    kind: str
    name: str
    text: str
    facts: dict[str, str]
    page: str


class ExplainResult(TypedDict):
    meanings: list[Meaning]


class PageEntry(TypedDict):
    page: str
    section: str
    title: str


class PagesResult(TypedDict):
    pages: list[PageEntry]


class PageResult(TypedDict):
    page: str
    title: str
    text: str


class HitsResult(TypedDict):
    hits: list[PageHit]


class CompletionResult(TypedDict):
    shell: str
    script: str


OUTPUTS: Final[Mapping[str, CommandOutput]] = {
    "serve": CommandOutput(results=(ServeResult,)),
    "emulator": CommandOutput(results=(ServerResult,), events=(("listening", ReadyEmulator),)),
    "hub serve": CommandOutput(results=(HubResult,), events=(("ready", ReadyHub),)),
    "cache ls": CommandOutput(results=(CacheCount,), rows=(CacheRow,)),
    "cache rm": CommandOutput(results=(CacheRemoved,)),
    "images": CommandOutput(results=(ImageCount, ImageResult), rows=(ImageRow,)),
    "instances": CommandOutput(
        results=(InstanceCount, MeasuredCount), rows=(InstanceRow, FittingInstanceRow, MeasuredInstanceRow)
    ),
    "catalog": CommandOutput(results=(TableCount,), rows=(TableRow,)),
    "catalog refresh": CommandOutput(results=(RefreshResult,)),
    "iam": CommandOutput(results=(IamResult,)),
    "bootstrap": CommandOutput(results=(BootstrapResult, BootstrapPolicyResult)),
    "doctor": CommandOutput(results=(DoctorResult,), rows=(FindingRow,)),
    "explain": CommandOutput(results=(ExplainResult,)),
    "docs": CommandOutput(results=(PagesResult, PageResult, HitsResult)),
    "completion": CommandOutput(results=(CompletionResult,)),
}
