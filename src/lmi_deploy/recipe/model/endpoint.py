"""The recipe's `endpoint` group: where a deployment runs and how it is reached."""

from __future__ import annotations

from lmi_deploy.domain import recipe as core
from lmi_deploy.recipe.model.field_types import (
    Group,
    Key,
    ListField,
    MappingField,
    NotImplementedYet,
    ScalarField,
)
from lmi_deploy.recipe.model.iam_roles import role
from lmi_deploy.recipe.model.mapping_rules import tag_key, tag_value
from lmi_deploy.recipe.model.scalar_types import (
    FLAG,
    InvalidValue,
    ScalarType,
    bounded,
    choice,
    enum_of,
    integer,
    matching_rule,
)
from lmi_deploy.recipe.yaml.tree import quoted

VPC = Group(
    core.Vpc,
    (
        Key(
            "subnets",
            ListField(matching_rule("subnet", "subnet id"), "subnets"),
            "Subnets of the endpoint.",
            "[subnet-0123]",
            required=True,
        ),
        Key(
            "security_groups",
            ListField(matching_rule("security_group", "security group id"), "security_groups"),
            "Security groups.",
            "[sg-0123]",
            required=True,
        ),
    ),
)

AUTOSCALING = Group(
    core.Autoscaling,
    (
        Key("min", ScalarField(integer(0, 10_000)), "Fewest instances.", "1", required=True),
        Key("max", ScalarField(integer(1, 10_000)), "Most instances.", "4", required=True),
        Key(
            "invocations_per_instance",
            ScalarField(integer(1, 1_000_000)),
            "Target number of requests per minute and instance; `lmi bench` measures the capacity of one instance.",
            "120",
            required=True,
        ),
    ),
)

ASYNCHRONOUS = Group(
    core.Asynchronous,
    (
        Key(
            "output",
            ScalarField(matching_rule("async_output", "S3 address")),
            "S3 location of the responses.",
            "s3://bucket/answers/",
            required=True,
        ),
        Key(
            "max_concurrent_per_instance",
            ScalarField(bounded("max_concurrent_per_instance", "requests")),
            "Concurrent requests per instance.",
            "4",
        ),
    ),
)


def _bucket(text: str) -> str:
    plain = text.replace("-", "").replace(".", "")
    if not (3 <= len(text) <= 63 and plain.isascii() and plain.isalnum() and plain == plain.lower()):
        raise InvalidValue(f"{quoted(text)} is not a bucket name", "write only the name, without s3://")
    return text


ENDPOINT = Group(
    core.Endpoint,
    (
        Key(
            "target",
            ScalarField(choice("sagemaker", "local")),
            "The target: this machine or SageMaker.",
            "local",
        ),
        Key(
            "runtime",
            ScalarField(choice("auto", "embedded", "djl-serving", "container")),
            "Target local: the model server.",
            "embedded",
        ),
        Key(
            "port",
            ScalarField(integer(1024, 65535)),
            "Target local: the port on 127.0.0.1; by default a free one.",
            "8080",
        ),
        Key("region", ScalarField(enum_of("regions", "region")), "The AWS region.", "us-east-1"),
        Key(
            "role",
            ScalarField(role()),
            "The execution role; by default `lmi-endpoint`. `lmi iam` prints its policies.",
            "arn:aws:iam::123456789012:role/endpoint",
        ),
        Key(
            "bucket",
            ScalarField(ScalarType("bucket name", _bucket)),
            "The bucket of weights and artifacts; by default one per account and region.",
            "my-models",
        ),
        Key(
            "count",
            ScalarField(integer(1, 10_000)),
            "Number of instances; by default 1, or autoscaling's min.",
            "1",
        ),
        Key(
            "volume_gb",
            ScalarField(bounded("volume_gb", "GB")),
            "Size of the volume, for types without local disks; by default derived from the weights.",
            "256",
        ),
        Key(
            "kms_key",
            ScalarField(matching_rule("kms_key", "KMS key")),
            "KMS key that encrypts the volume.",
            "alias/models",
        ),
        Key("network_isolation", ScalarField(FLAG), "Give the container no network access.", "true"),
        Key("vpc", VPC, "The VPC that the endpoint joins."),
        Key("autoscaling", AUTOSCALING, "Scale the number of instances with the load."),
        Key(
            "asynchronous",
            ASYNCHRONOUS,
            "Write responses to S3.",
            later=NotImplementedYet("asynchronous endpoints"),
        ),
        Key(
            "tags",
            MappingField("pairs: name and text", key=tag_key, value=tag_value, limit="tags"),
            "Tags for every resource.",
            "{team: search}",
        ),
    ),
)
