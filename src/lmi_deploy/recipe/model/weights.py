"""The recipe's `weights` group: how they travel to the bucket, and how the container gets them."""

from __future__ import annotations

from lmi_deploy.domain import recipe as core
from lmi_deploy.recipe.model.field_types import Group, Key, ScalarField
from lmi_deploy.recipe.model.iam_roles import role
from lmi_deploy.recipe.model.scalar_types import choice, enum_of, integer, line

TRANSFER_JOB = Group(
    core.TransferJob,
    (
        Key(
            "instance_type",
            ScalarField(enum_of("job_instance_types", "processing instance type")),
            "SageMaker processing instance type; by default one with 10 Gbit/s.",
            "ml.m5.4xlarge",
        ),
        Key(
            "count",
            ScalarField(integer(1, 100)),
            "Number of instances; by default derived from the size of the weights.",
            "4",
        ),
        Key(
            "role",
            ScalarField(role()),
            "The role of the job; by default `lmi-transfer-job`. `lmi iam` prints its policy.",
            "arn:aws:iam::123456789012:role/transfer-job",
        ),
    ),
)

WEIGHTS = Group(
    core.Weights,
    (
        Key(
            "via",
            ScalarField(choice("stream", "snapshot", "job")),
            "How the weights get to the bucket: streamed through this machine's memory, through the Hub's cache on "
            "its disk, or by a job inside AWS.",
            "stream",
        ),
        Key(
            "engine",
            ScalarField(choice("auto", "own", "s5cmd", "obstore")),
            "The uploader for files on this machine: lmi's own or another program; `auto` takes the fastest one "
            "for these files.",
            "auto",
        ),
        Key(
            "deliver",
            ScalarField(choice("s3", "mount", "artifact")),
            "How the container gets them: it downloads them, SageMaker mounts them, or they are in the artifact "
            "(at most 5 GB); by default `s3`, with network isolation `mount`.",
            "s3",
        ),
        Key(
            "memory_mb",
            ScalarField(integer(128, 1_000_000)),
            "Memory limit of the process that transfers the weights; by default 256.",
            "1024",
        ),
        Key(
            "token_secret",
            ScalarField(line()),
            "Name of the Secrets Manager secret with the Hub token for a job.",
            "hub-token",
        ),
        Key("job", TRANSFER_JOB, "Instances and role of the job with `via: job`."),
    ),
)
