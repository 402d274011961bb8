"""What the user wrote, checked and typed. It may contain `auto` or leave keys out; a Spec may not.

The declaration with the texts for people (errors, JSON Schema, reference page) is in `recipe/model/declaration.py`; a
test checks that both have the same fields.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal[
    "vllm",
    "tensorrt-llm",
    "lmi-dist",
    "accelerate",
    "neuronx",
    "deepspeed",
    "fastertransformer",
    "triton",
    "neuron",
    "custom",
]
DEFAULT_ENGINE: Engine = "vllm"
AUTO_INSTANCE = ("auto",)
"""The cheapest instance type that holds the model."""
TargetName = Literal["sagemaker", "local"]
Task = Literal[
    "text-generation",
    "text2text-generation",
    "text-embedding",
    "text-classification",
    "question-answering",
]
RuntimeName = Literal["auto", "embedded", "djl-serving", "container"]
Pairs = tuple[tuple[str, str], ...]
"""Keys and values as the user wrote them, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds; None if the recipe sets none."""

    model_download: int | None = None
    container_startup: int | None = None
    model_loading: int | None = None
    predict: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Patterns (fnmatch, as the Hub's own client uses them) over the repository's paths."""

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferJob:
    """The machines of `via: job`; None leaves the choice to us."""

    instance_type: str | None = None
    count: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    via: Literal["stream", "snapshot", "job"] | None = None
    engine: Literal["auto", "own", "s5cmd", "obstore"] | None = None
    deliver: Literal["s3", "mount", "artifact"] | None = None
    memory_mb: int | None = None
    token_secret: str | None = None
    job: TransferJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    version: str | None = None
    image: str | None = None
    environment: Pairs = ()
    host_ami: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """At most one of `builtin` (a module of djl_python), `template` (from lmi's `templates/`) and `file` (the user's
    model.py).
    """

    builtin: str | None = None
    template: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    target: TargetName = "sagemaker"
    runtime: RuntimeName = "auto"
    port: int | None = None
    region: str | None = None
    role: str | None = None
    bucket: str | None = None
    count: int | None = None
    volume_gb: int | None = None
    kms_key: str | None = None
    network_isolation: bool = False
    vpc: Vpc | None = None
    autoscaling: Autoscaling | None = None
    asynchronous: Asynchronous | None = None
    tags: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    min: int
    max: int
    invocations_per_instance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asynchronous:
    output: str
    max_concurrent_per_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The probe of the deployment; `expect` is text that the response must contain."""

    prompt: str | None = None
    body: str | None = None
    content_type: str = "application/json"
    expect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    name: str
    model_id: str
    revision: str = "main"
    engine: Engine = DEFAULT_ENGINE
    task: Task | None = None
    tensor_parallel_degree: int | None = None
    """None: auto."""
    instance_type: tuple[str, ...] = ()
    """AUTO_INSTANCE: to be chosen by what fits."""
    trust_remote_code: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    files: Files = field(default_factory=Files)
    weights: Weights = field(default_factory=Weights)
    container: Container = field(default_factory=Container)
    handler: Handler = field(default_factory=Handler)
    options: Pairs = ()
    properties: Pairs = ()
    requirements: str | None = None
    """Path of a requirements.txt, relative to the recipe."""
    endpoint: Endpoint = field(default_factory=Endpoint)
    probe: Probe | None = None
    ttl: int | None = None
    """Seconds."""
    bench: Pairs = ()
    overlay: str | None = None
    """The overlay that was applied; `name` already carries it."""
    origin: str = ""
    """Path of the file, as the user named it; relative paths inside the recipe start at its folder."""
    overrides: tuple[str, ...] = ()
    """The `--set` of the command line, as they were given."""

    @property
    def arguments(self) -> str:
        """The arguments that name this recipe in another command, quoted for a shell: its path, its overlay, its
        overrides.
        """
        words = [self.origin or "RECIPE"]
        words += ["--overlay", self.overlay] if self.overlay else []
        for override in self.overrides:
            words += ["--set", override]
        return shlex.join(words)
