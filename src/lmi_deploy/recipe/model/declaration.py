"""The recipe, declared once: every key with its type, meaning and example, and whether it is implemented.

The source of the errors (`recipe/reader.py`), the JSON Schema (`recipe/schema.py`), the reference page and the
comments of `lmi init` (`planning/init.py`). Defaults are those of the dataclasses in `domain/recipe.py`; a
test checks that both have the same fields.
"""

from __future__ import annotations

from typing import get_args

from lmi_deploy.catalog.options import TEMPLATE_OPTIONS
from lmi_deploy.domain import recipe as core
from lmi_deploy.domain.djl_serving import SERVER_VERSION
from lmi_deploy.recipe.model.endpoint import ENDPOINT
from lmi_deploy.recipe.model.field_types import (
    Group,
    Key,
    ListField,
    MappingField,
    NotImplementedYet,
    ScalarField,
    ScalarOrListField,
)
from lmi_deploy.recipe.model.mapping_rules import (
    environment_key,
    environment_value,
    option_key,
    property_key,
    property_value,
)
from lmi_deploy.recipe.model.scalar_types import (
    FLAG,
    bounded_seconds,
    choice,
    degree,
    deployment_name,
    enum_of,
    enum_or_auto,
    free_text,
    line,
    matching_rule,
    model_id,
    module,
    relative_path,
    revision,
    seconds,
)
from lmi_deploy.recipe.model.ttl import TTL
from lmi_deploy.recipe.model.weights import WEIGHTS

TEMPLATES = tuple(TEMPLATE_OPTIONS)
"""lmi's own handler templates."""

BUILT: tuple[core.Engine, ...] = ("vllm", "accelerate", "custom")
OTHER_ENGINES = tuple(name for name in get_args(core.Engine) if name not in BUILT)

TIMEOUTS = Group(
    core.Timeouts,
    (
        Key(
            "model_download",
            ScalarField(bounded_seconds("model_download")),
            "Time limit for the download of the model's files to the instance.",
            "600",
        ),
        Key(
            "container_startup",
            ScalarField(bounded_seconds("container_startup")),
            "Time limit from the server's start to its first healthy response; includes model_loading.",
            "600",
        ),
        Key(
            "model_loading",
            ScalarField(seconds(1, 3600)),
            "Time limit for a worker to load the model; at most container_startup.",
            "500",
        ),
        Key(
            "predict",
            ScalarField(seconds(1, 3600)),
            "Time limit of one request; SageMaker's limit for real-time requests is 60 s.",
            "60",
        ),
    ),
)

FILES = Group(
    core.Files,
    (
        Key(
            "allow",
            ListField(line("pattern")),
            "Take only files that match one of these patterns.",
            '["*.json", "*.safetensors"]',
        ),
        Key(
            "ignore",
            ListField(line("pattern")),
            "Exclude files that match one of these patterns.",
            '["*.onnx"]',
        ),
        Key(
            "allow_pickle",
            ScalarField(FLAG),
            "Allow pickle weights if there are no safetensors. Pickles can run code when they are loaded.",
            "true",
        ),
    ),
)

CONTAINER = Group(
    core.Container,
    (
        Key(
            "version",
            ScalarField(line("version of the image family")),
            "DJLServing's version, or an image tag; by default the newest. `lmi images` lists them.",
            SERVER_VERSION,
        ),
        Key(
            "image",
            ScalarField(matching_rule("image", "image address")),
            "Your own image instead of the family's; runtime `container` runs it.",
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        ),
        Key(
            "environment",
            MappingField(
                "pairs: name and text", key=environment_key, value=environment_value, limit="environment"
            ),
            "Environment variables of the server, passed unchanged.",
            "{OMP_NUM_THREADS: 4}",
        ),
        Key(
            "host_ami",
            ScalarField(enum_of("host_amis", "inference AMI version")),
            "The host image (AMI); by default the one for the image's CUDA version.",
            "al2023-ami-sagemaker-inference-gpu-4-1",
        ),
    ),
)

HANDLER = Group(
    core.Handler,
    (
        Key(
            "builtin",
            ScalarField(module()),
            "A handler of DJL's Python engine; needs no code.",
            "djl_python.huggingface",
        ),
        Key(
            "template", ScalarField(choice(*TEMPLATES)), "One of lmi's model.py templates.", "text-generation"
        ),
        Key("file", ScalarField(relative_path(".py")), "Your own model.py.", "model.py"),
    ),
)

PROBE = Group(
    core.Probe,
    (
        Key(
            "prompt",
            ScalarField(free_text()),
            "The prompt of the probe.",
            "Say OK",
        ),
        Key(
            "body",
            ScalarField(free_text()),
            "The whole request body of the probe, instead of a prompt; JSON unless content_type is set.",
            '\'{"inputs": "OK"}\'',
        ),
        Key(
            "content_type", ScalarField(line("media type")), "The media type of the body.", "application/json"
        ),
        Key("expect", ScalarField(free_text()), "Text that the response must contain.", "OK"),
    ),
)

RECIPE = Group(
    core.Recipe,
    (
        Key(
            "name",
            ScalarField(deployment_name()),
            "The deployment's name; `--overlay NAME` appends the overlay's name.",
            "flan-t5-xxl",
            required=True,
        ),
        Key(
            "model_id",
            ScalarField(model_id()),
            "The model.",
            "google/flan-t5-xxl",
            required=True,
        ),
        Key(
            "revision",
            ScalarField(revision()),
            "The version of the model; `lmi plan` pins it to a commit.",
            "main",
        ),
        Key(
            "engine",
            ScalarField(choice(*get_args(core.Engine))),
            "The inference engine.",
            "accelerate",
            later=NotImplementedYet(f"this version supports {', '.join(BUILT)}", OTHER_ENGINES),
        ),
        Key(
            "task",
            ScalarField(choice(*get_args(core.Task))),
            "The model's task; by default detected from the model.",
            "text-generation",
        ),
        Key(
            "tensor_parallel_degree",
            ScalarField(degree()),
            "Over how many devices the model is cut; `auto`, also where left out: as many of the instance's as its "
            "attention heads can be divided by.",
            "4",
        ),
        Key(
            "instance_type",
            ScalarOrListField(enum_or_auto("instance_types", "instance type"), most=5),
            "SageMaker instance type, or several in order of preference; required for target sagemaker. `auto`: "
            "the cheapest type with a known price that holds the model.",
            "ml.g5.12xlarge",
        ),
        Key("trust_remote_code", ScalarField(FLAG), "Run code from the model's repository.", "true"),
        Key("timeouts", TIMEOUTS, "Time limits."),
        Key("files", FILES, "Selection of the model's files."),
        Key("weights", WEIGHTS, "Transfer of the weights to the bucket and to the container."),
        Key("container", CONTAINER, "The image, its host image and its environment."),
        Key(
            "handler",
            HANDLER,
            "The code that handles requests: one of the three; by default the engine's own.",
        ),
        Key(
            "options",
            MappingField("pairs: name and text", key=option_key, value=property_value),
            "`option.*` of serving.properties, without the prefix, passed unchanged.",
            "{dtype: fp16}",
        ),
        Key(
            "properties",
            MappingField("pairs: name and text", key=property_key, value=property_value),
            "Other keys of serving.properties, passed unchanged.",
            "{job_queue_size: 100}",
        ),
        Key(
            "requirements",
            ScalarField(relative_path(".txt")),
            "A requirements.txt with the packages of the handler.",
            "requirements.txt",
        ),
        Key("endpoint", ENDPOINT, "The target and its settings."),
        Key("probe", PROBE, "The request that tests the deployment; by default one for the task."),
        Key(
            "ttl",
            ScalarField(TTL),
            "Time until the deployment expires.",
            "8h",
        ),
        Key(
            "bench",
            MappingField("pairs: name and text"),
            "Defaults of `lmi bench`.",
            "{concurrency: 4}",
            later=NotImplementedYet("lmi bench"),
        ),
    ),
    also=("overlays",),
)

NOT_WRITTEN = ("overlay", "origin", "overrides")
"""Fields of core's Recipe that no key fills: parse does."""
