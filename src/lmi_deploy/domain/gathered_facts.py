"""The facts collected before any decision: values from read-only requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from lmi_deploy.domain.image_build import BuildContext
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.settings_digest import digest_tag

ModelSource = Literal["hub", "folder", "s3"]
OidKind = Literal["sha256", "git-sha1", "etag"]


@digest_tag("FileEntry")
@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a model: its path, its size, and the hash stated by its source."""

    path: str
    size: int
    oid: str
    kind: OidKind
    """`sha256` of the content (a large file, a local or an S3 file), git's blob sha1 (a small file of the Hub), or
    the ETag of an object that is used where it is: its bytes were not read.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelListing:
    """A model repository at one commit. `commit` is 40 hex from the Hub, or the digest of the files of a folder
    or an S3 prefix."""

    model_id: str
    commit: str
    files: tuple[FileEntry, ...]
    source: ModelSource = "hub"
    gated: bool = False
    pipeline_tag: str | None = None
    compiled: str = ""
    """Of the result of a compile: by what it was made, in words. Its commit is that of `domain/compile.py`."""


def in_place_listing(weights: InPlaceWeights) -> ModelListing:
    """As a model repository, whose commit changes with every object."""
    return ModelListing(
        model_id=weights.address,
        commit=weights.commit,
        files=tuple(
            FileEntry(path=file.path, size=file.size, oid=file.etag, kind="etag") for file in weights.files
        ),
        source="s3",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """The result of `lmi compile`: its commit is the identity of the compile."""

    listing: ModelListing
    properties: tuple[tuple[str, str], ...] = ()
    """Of its serving.properties, if the compiler wrote one."""


TensorHeader = tuple[str, str, tuple[int, ...]]
"""Name, dtype and shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """The content of the safetensors headers: parameters by dtype, without reading a weight."""

    parameters: dict[str, int] = field(default_factory=dict)
    headers: dict[str, tuple[TensorHeader, ...]] = field(default_factory=dict)
    """By file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFacts:
    """The repository of one LoRA adapter."""

    name: str
    revision: str
    listing: ModelListing
    config: dict[str, Any]
    """Its adapter_config.json; empty if it has none."""
    tensors: tuple[TensorHeader, ...] = ()
    """Of adapter_model.safetensors; empty if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFacts:
    """The repository of the draft model of speculative decoding."""

    revision: str
    listing: ModelListing


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine, for target local. Sizes in bytes; `accelerators` names each device with its memory."""

    memory: int
    cores: int
    accelerators: tuple[tuple[str, int], ...] = ()
    compute_capability: float | None = None
    """The least of its accelerators; None: none, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableRuntimes:
    """Target local: the usable runtimes of this machine, best first; for the others, why not."""

    names: tuple[str, ...]
    lacking: Mapping[str, str] = field(default_factory=dict)


class AccountLocation(Protocol):
    """An account in one of AWS's partitions."""

    @property
    def account(self) -> str: ...

    @property
    def partition(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFacts:
    """Target sagemaker: the caller and the region. `bucket` is the default one of account and region, whether or not
    it exists.
    """

    account: str
    partition: str
    region: str
    principal: str
    """ARN of the caller."""
    bucket: str
    hub: str = ""
    """The address of this machine's Hub, for jobs, if it is not the public one."""
    instance: str = ""
    """The instance type that the deployment has; looked up only for `instance_type: auto`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything `resolve` may know beyond the recipe."""

    listing: ModelListing
    config: dict[str, Any]
    """The model's config.json; empty if it has none."""
    tensors: Tensors | None
    shards: tuple[str, ...] = ()
    """The files in model.safetensors.index.json; empty without an index."""
    model_py: bytes | None = None
    requirements: bytes | None = None
    extra_files: tuple[tuple[str, bytes], ...] = ()
    """The user's files for the artifact, by their path in it."""
    compile_script: bytes | None = None
    compile_requirements: bytes | None = None
    compiled: CompiledModel | None = None
    """The result of `lmi compile`, which is served instead of the model's own files."""
    in_place: InPlaceWeights | None = None
    """With `weights.in_place`: the objects that the endpoint reads; `listing` is theirs."""
    adapters: tuple[AdapterFacts, ...] = ()
    draft: DraftFacts | None = None
    build: BuildContext | None = None
    """The folder of container.build; None: the recipe has none."""
    machine: Machine | None = None
    port: int | None = None
    """Target local: the existing port of this deployment, else a free one."""
    runtimes: AvailableRuntimes = field(default_factory=lambda: AvailableRuntimes(names=("embedded",)))
    cloud: CloudFacts | None = None
    """Target sagemaker."""
