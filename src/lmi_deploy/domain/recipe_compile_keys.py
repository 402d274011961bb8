"""The recipe's group `compile`: a model that is compiled or partitioned once, ahead of time, by `lmi compile`."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated

from lmi_deploy.domain.recipe_key_types import Doc, EnumOf, FilePath, MatchingRule, Named, PairsOf, Seconds
from lmi_deploy.domain.settings_digest import digest_tag

MODEL_ARGUMENT = "--model"
OUTPUT_ARGUMENT = "--output"
"""The contract of a script: `python SCRIPT --model DIR --output DIR [--KEY VALUE ...]`, exit status 0. The output
folder is all that the engine serves. stdout and stderr are its log."""
OWN_COMPILER = ("deepspeed", "fastertransformer", "lmi-dist", "neuronx", "tensorrt-llm")
"""Engines whose image compiles or partitions a model without a script."""


@digest_tag("Compile")
@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    script: Annotated[
        str | None,
        FilePath(".py"),
        Doc(
            "Your own script, run as `python SCRIPT --model DIR --output DIR --KEY VALUE …`; by default the engine's "
            "own compiler.",
            "compile.py",
        ),
    ] = None
    arguments: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("compile argument"),
        Doc(
            "Further arguments of the script, each passed as `--KEY VALUE`.",
            "{batch: 1, sequence-length: 128}",
        ),
    ] = ()
    requirements: Annotated[
        str | None,
        FilePath(".txt"),
        Doc(
            "A requirements.txt with the packages of the script, installed before it.",
            "compile-requirements.txt",
        ),
    ] = None
    instance_type: Annotated[
        str | None,
        EnumOf("compile_instance_types", "instance type for such a job"),
        Doc("SageMaker instance type of the job; by default one for the engine.", "ml.c5.4xlarge"),
    ] = None
    image: Annotated[
        str | None,
        MatchingRule("image", "image address"),
        Doc(
            "The image that compiles; by default the one that serves.",
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        ),
    ] = None
    timeout: Annotated[
        int | None,
        Seconds(60, 5 * 86_400),
        Doc("Time limit of the job; by default 4 hours.", "2h"),
    ] = None
    role: Annotated[
        str | None,
        Named("role"),
        Doc(
            "The role of the job; by default `lmi-transfer-job`. `lmi iam` prints its policy.",
            "arn:aws:iam::123456789012:role/compile-job",
        ),
    ] = None
