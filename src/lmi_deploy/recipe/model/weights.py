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
            "SageMaker processing instance type; one with 10 Gbit/s where left out.",
            "ml.m5.4xlarge",
        ),
        Key(
            "count",
            ScalarField(integer(1, 100)),
            "Number of instances; by the size of the weights where left out.",
            "4",
        ),
        Key(
            "role",
            ScalarField(role()),
            "The role that the job runs with; `lmi-transfer-job` where left out. `lmi iam` prints its policy.",
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
            "How the weights travel to the bucket: streamed past this machine, through the Hub's cache on it, or by a "
            "job inside AWS.",
            "stream",
        ),
        Key(
            "engine",
            ScalarField(choice("auto", "own", "s5cmd", "obstore")),
            "What carries them: ourselves, or an outside engine that sends files of this machine; `auto` is the one "
            "that measures fastest for such files.",
            "auto",
        ),
        Key(
            "deliver",
            ScalarField(choice("s3", "mount", "artifact")),
            "How the container gets them: it downloads them, SageMaker mounts them, or they lie in the artifact "
            "(at most 5 GB); `s3` where left out, `mount` with network isolation.",
            "s3",
        ),
        Key(
            "memory_mb",
            ScalarField(integer(128, 1_000_000)),
            "Memory that the transfer may use, for the whole process; 256 where left out.",
            "1024",
        ),
        Key(
            "token_secret",
            ScalarField(line()),
            "Name of the Secrets Manager secret that holds the Hub token of a job.",
            "hub-token",
        ),
        Key("job", TRANSFER_JOB, "The machines of `via: job`."),
    ),
)
