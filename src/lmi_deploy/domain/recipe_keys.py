"""What the user wrote, checked and typed. It may contain `auto` or leave keys out; a Spec may not.

Each field with a `Doc` is a key of the recipe, and this is its only declaration: `recipe/model/key_readers.py` makes
the parser, the JSON Schema, the reference page and the comments of `lmi init` from it. A key without a default is
required; `bool`, a Literal and a group need no rule beside their type.
"""

# Without `from __future__ import annotations`: the declarations are read as objects, not as text.
import shlex
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from lmi_deploy.domain.djl_serving import SERVER_VERSION
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.domain.recipe_compile_keys import Compile
from lmi_deploy.domain.recipe_endpoint_keys import Endpoint
from lmi_deploy.domain.recipe_key_types import (
    Doc,
    EnumOf,
    FilePath,
    Limited,
    MatchingRule,
    Named,
    OneLine,
    OneOrList,
    PairsOf,
    Seconds,
    SourcesByName,
)
from lmi_deploy.domain.recipe_weights_keys import AdapterSource, Files, Weights

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
    "vllm-server",
    "sglang",
    "tei",
    "custom",
]
DEFAULT_ENGINE: Engine = "vllm"
AUTO_INSTANCE = ("auto",)
"""The cheapest instance type that holds the model."""
IMAGE_SERVERS: tuple[Engine, ...] = ("vllm-server", "sglang", "tei")
"""Engines whose image contains a server of its own instead of DJLServing: it starts from variables."""
ADAPTER_ENGINES: tuple[Engine, ...] = ("vllm", "lmi-dist", "custom")
"""Those whose handlers register the LoRA adapters in the model folder; of `custom` that is up to the user's code."""
Task = Literal[
    "text-generation", "text2text-generation", "text-embedding", "text-classification", "question-answering"
]
Pairs = tuple[tuple[str, str], ...]
RECIPE_SUFFIXES = (".yaml", ".yml")
"""Keys and values as the user wrote them, in the order of the file."""
TTL = Seconds(60, 90 * 86400)
"""The lifetime of a deployment: the recipe's `ttl`, and the argument of `lmi extend`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds; None if the recipe sets none."""

    model_download: Annotated[
        int | None,
        Limited("model_download", "seconds"),
        Doc("Time limit for the download of the model's files to the instance.", "600"),
    ] = None
    container_startup: Annotated[
        int | None,
        Limited("container_startup", "seconds"),
        Doc(
            "Time limit from the server's start to its first healthy response; includes model_loading.",
            "600",
        ),
    ] = None
    model_loading: Annotated[
        int | None,
        Seconds(1, 3600),
        Doc("Time limit for a worker to load the model; at most container_startup.", "500"),
    ] = None
    predict: Annotated[
        int | None,
        Seconds(1, 3600),
        Doc("Time limit of one request; SageMaker's limit for real-time requests is 60 s.", "60"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    version: Annotated[
        str | None,
        OneLine("version of the image family"),
        Doc(
            "DJLServing's version, or an image tag; by default the newest. `lmi images` lists them.",
            SERVER_VERSION,
        ),
    ] = None
    image: Annotated[
        str | None,
        MatchingRule("image", "image address"),
        Doc(
            "Your own image instead of the family's; runtime `container` runs it.",
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        ),
    ] = None
    build: Annotated[
        str | None,
        Named("folder"),
        Doc(
            "A folder with a Dockerfile, instead of `image`: lmi builds the image, and for SageMaker pushes it to ECR.",
            "./container",
        ),
    ] = None
    dockerfile: Annotated[
        str | None,
        OneLine("path in the folder of container.build"),
        Doc("The Dockerfile in that folder.", "Dockerfile.gpu"),
    ] = None
    build_args: Annotated[
        Pairs,
        PairsOf("build argument"),
        Doc("Build arguments: values for `ARG` in the Dockerfile.", "{PYTHON_VERSION: 3.11}"),
    ] = ()
    environment: Annotated[
        Pairs,
        PairsOf("environment"),
        Doc("Environment variables of the server, passed unchanged.", "{OMP_NUM_THREADS: 4}"),
    ] = ()
    host_ami: Annotated[
        str | None,
        EnumOf("host_amis", "inference AMI version"),
        Doc(
            "The host image (AMI); by default the one for the image's CUDA version.",
            "al2023-ami-sagemaker-inference-gpu-4-1",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """At most one of `builtin` (a module of djl_python), `template` (from lmi's `templates/`) and `file` (the user's
    model.py).
    """

    builtin: Annotated[
        str | None,
        Named("handler module"),
        Doc("A handler of DJL's Python engine; needs no code.", "djl_python.huggingface"),
    ] = None
    template: Annotated[
        str | None, Named("handler template"), Doc("One of lmi's model.py templates.", "text-generation")
    ] = None
    file: Annotated[str | None, FilePath(".py"), Doc("Your own model.py.", "model.py")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The probe of the deployment; `expect` is text that the response must contain."""

    prompt: Annotated[str | None, Named("text"), Doc("The prompt of the probe.", "Say OK")] = None
    body: Annotated[
        str | None,
        Named("text"),
        Doc(
            "The whole request body of the probe, instead of a prompt; JSON unless content_type is set.",
            '\'{"inputs": "OK"}\'',
        ),
    ] = None
    content_type: Annotated[
        str, OneLine("media type"), Doc("The media type of the body.", "application/json")
    ] = "application/json"
    expect: Annotated[str | None, Named("text"), Doc("Text that the response must contain.", "OK")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    name: Annotated[
        str,
        Named("deployment name"),
        Doc("The deployment's name; `--overlay NAME` appends the overlay's name.", "flan-t5-xxl"),
    ]
    model_id: Annotated[str, Named("model id"), Doc("The model.", "google/flan-t5-xxl")]
    revision: Annotated[
        str, Named("revision"), Doc("The version of the model; `lmi plan` pins it to a commit.", "main")
    ] = "main"
    engine: Annotated[Engine, Doc("The inference engine.", "accelerate")] = DEFAULT_ENGINE
    task: Annotated[
        Task | None, Doc("The model's task; by default detected from the model.", "text-generation")
    ] = None
    tensor_parallel_degree: Annotated[
        int | None,
        Named("degree"),
        Doc(
            "Number of devices that share the model. `auto` (the default): the largest number of the instance's "
            "devices that divides the model's attention heads.",
            "4",
        ),
    ] = None
    """None: auto."""
    instance_type: Annotated[
        tuple[str, ...],
        OneOrList(EnumOf("instance_types", "instance type", or_auto=True), most=5),
        Doc(
            "SageMaker instance type, or several in order of preference; required for target sagemaker. `auto`: "
            "the cheapest type with a known price that holds the model; a deployment keeps its type as long as that "
            "holds the model.",
            "ml.g5.12xlarge",
        ),
    ] = ()
    """AUTO_INSTANCE: to be chosen by what fits."""
    trust_remote_code: Annotated[bool, Doc("Run code from the model's repository.", "true")] = False
    timeouts: Annotated[Timeouts, Doc("Time limits.")] = field(default_factory=Timeouts)
    files: Annotated[Files, Doc("Selection of the model's files.")] = field(default_factory=Files)
    weights: Annotated[Weights, Doc("Transfer of the weights to the bucket and to the container.")] = field(
        default_factory=Weights
    )
    adapters: Annotated[
        tuple[AdapterSource, ...],
        SourcesByName(most=32),
        Doc(
            "LoRA adapters by the name that a request selects them with (`lmi invoke --adapter NAME`): a Hub id, an "
            "`s3://` prefix or a folder, or `{source: …, revision: …}`.",
            "{french: org/french-lora}",
        ),
    ] = ()
    container: Annotated[Container, Doc("The image, its host image and its environment.")] = field(
        default_factory=Container
    )
    handler: Annotated[
        Handler,
        Doc("The code that handles requests: one of the three keys below; by default the engine's own."),
    ] = field(default_factory=Handler)
    options: Annotated[
        Pairs,
        PairsOf("option"),
        Doc(
            "`option.*` of serving.properties, without the prefix, passed unchanged; of engine triton the settings of "
            "its model repository (`lmi docs serve-with-triton`).",
            "{dtype: fp16}",
        ),
    ] = ()
    properties: Annotated[
        Pairs,
        PairsOf("property"),
        Doc("Other keys of serving.properties, passed unchanged.", "{job_queue_size: 100}"),
    ] = ()
    requirements: Annotated[
        str | None,
        FilePath(".txt"),
        Doc("A requirements.txt with the packages of the handler.", "requirements.txt"),
    ] = None
    """Path of a requirements.txt, relative to the recipe."""
    compile: Annotated[
        Compile | None,
        Doc(
            "The model is compiled or partitioned once, by `lmi compile`, and its result is served "
            "(`lmi docs compile-ahead-of-time`). `{}`: by the engine's own compiler.",
        ),
    ] = None
    endpoint: Annotated[Endpoint, Doc("The target and its settings.")] = field(default_factory=Endpoint)
    probe: Annotated[
        Probe | None, Doc("The request that tests the deployment; by default one for the task.")
    ] = None
    ttl: Annotated[int | None, TTL, Doc("Time until the deployment expires.", "8h")] = None
    """Seconds."""
    bench: Annotated[
        Bench | None,
        Doc("An experiment that `lmi bench RECIPE` runs (`lmi docs run-an-experiment`)."),
    ] = None
    overlay: str | None = None
    """The overlay that was applied; `name` already carries it."""
    origin: str = ""
    """Path of the file, as the user named it; relative paths inside the recipe start at its folder."""
    overrides: tuple[str, ...] = ()
    """The `--set` of the command line, as they were given."""
    candidate: "Recipe | None" = None
    """What `endpoint.candidate` names, with this recipe's name and endpoint."""

    @property
    def runs_own_image(self) -> bool:
        """Whether the user's own image contains the whole server, and lmi adds no handler to it."""
        return self.engine == "custom" and self.handler.file is None

    def in_region(self, region: str) -> "Recipe":
        return replace(self, endpoint=replace(self.endpoint, region=region))

    @property
    def arguments(self) -> str:
        """Its path, overlay and overrides as another command takes them, quoted for a shell."""
        words = [self.origin or "RECIPE"]
        words += ["--overlay", self.overlay] if self.overlay else []
        for override in self.overrides:
            words += ["--set", override]
        return shlex.join(words)
