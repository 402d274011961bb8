"""The recipe's groups `files` and `weights`: which files are taken, how they travel, how the container gets them."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated, Literal

from lmi_deploy.domain.recipe_key_types import Doc, EnumOf, Integer, ListOf, Named, OneLine, PairsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSource:
    """One LoRA adapter of the recipe: its name in requests, and where its files come from."""

    name: str
    source: str
    """As `model_id`: a Hub id, an s3:// prefix or a folder."""
    revision: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Patterns (fnmatch, as the Hub's own client uses them) over the repository's paths."""

    allow: Annotated[
        tuple[str, ...],
        ListOf(OneLine("pattern")),
        Doc("Take only files that match one of these patterns.", '["*.json", "*.safetensors"]'),
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        ListOf(OneLine("pattern")),
        Doc("Exclude files that match one of these patterns.", '["*.onnx"]'),
    ] = ()
    allow_pickle: Annotated[
        bool,
        Doc(
            "Allow pickle weights if there are no safetensors. Pickles can run code when they are loaded.",
            "true",
        ),
    ] = False
    extra: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("artifact file"),
        Doc(
            "Further files of the artifact: the path in the artifact, and the local file, relative to the recipe; "
            "at most 20 MB in all.",
            "{labels.json: data/labels.json}",
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferJob:
    """The machines of `via: job`; None leaves the choice to us."""

    instance_type: Annotated[
        str | None,
        EnumOf("job_instance_types", "processing instance type"),
        Doc("SageMaker processing instance type; by default one with 10 Gbit/s.", "ml.m5.4xlarge"),
    ] = None
    count: Annotated[
        int | None,
        Integer(1, 100),
        Doc("Number of instances; by default derived from the size of the weights.", "4"),
    ] = None
    role: Annotated[
        str | None,
        Named("role"),
        Doc(
            "The role of the job; by default `lmi-transfer-job`. `lmi iam` prints its policy.",
            "arn:aws:iam::123456789012:role/transfer-job",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    via: Annotated[
        Literal["stream", "snapshot", "job"] | None,
        Doc(
            "How the weights get to the bucket: streamed through this machine's memory, through the Hub's cache on "
            "its disk, or by a job inside AWS.",
            "stream",
        ),
    ] = None
    engine: Annotated[
        Literal["auto", "own", "s5cmd", "obstore"] | None,
        Doc(
            "The uploader for files on this machine: lmi's own or another program; `auto` takes the fastest one "
            "for these files.",
            "auto",
        ),
    ] = None
    deliver: Annotated[
        Literal["s3", "mount", "artifact"] | None,
        Doc(
            "How the container gets them: it downloads them, SageMaker mounts them, or they are in the artifact "
            "(at most 5 GB); by default `s3`, with network isolation `mount`.",
            "s3",
        ),
    ] = None
    in_place: Annotated[
        bool,
        Doc(
            "Serve a model of a bucket of your own (`model_id: s3://...`) from where it is: lmi neither copies nor "
            "deletes it. Target sagemaker.",
            "true",
        ),
    ] = False
    memory_mb: Annotated[
        int | None,
        Integer(128, 1_000_000),
        Doc("Memory limit of the process that transfers the weights; by default 256.", "1024"),
    ] = None
    token_secret: Annotated[
        str | None,
        OneLine(),
        Doc("Name of the Secrets Manager secret with the Hub token for a job.", "hub-token"),
    ] = None
    job: Annotated[TransferJob | None, Doc("Instances and role of the job with `via: job`.")] = None


def is_folder(model_id: str) -> bool:
    """Whether it is a path of this machine, not a model of the Hub or in S3."""
    return model_id.startswith(("/", "./", "../", "~")) or model_id in (".", "..")
