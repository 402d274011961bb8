"""The recipe's group `endpoint`: where a deployment runs and how it is reached."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated, Literal

from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.recipe_alarm_keys import Alarms
from lmi_deploy.domain.recipe_candidate_keys import Candidate
from lmi_deploy.domain.recipe_instance_keys import Component, InstancePools
from lmi_deploy.domain.recipe_key_types import (
    Doc,
    EnumOf,
    Integer,
    Limited,
    ListOf,
    MatchingRule,
    Named,
    OneLine,
    PairsOf,
    Seconds,
)
from lmi_deploy.domain.recipe_scaling_keys import Autoscaling, InstanceScaling
from lmi_deploy.domain.settings_digest import digest_tag

TargetName = Literal["sagemaker", "local"]
CapturedContent = Literal["both", "requests", "responses"]
UpdatePolicyName = Literal["all-at-once", "canary", "linear", "rolling"]
RuntimeName = Literal["auto", "embedded", "djl-serving", "triton", "container"]


@digest_tag("Vpc")
@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    subnets: Annotated[
        tuple[str, ...],
        ListOf(MatchingRule("subnet", "subnet id"), limit="subnets"),
        Doc("Subnets of the endpoint.", "[subnet-0123]"),
    ]
    security_groups: Annotated[
        tuple[str, ...],
        ListOf(MatchingRule("security_group", "security group id"), limit="security_groups"),
        Doc("Security groups.", "[sg-0123]"),
    ]


@digest_tag("Asynchronous")
@dataclass(frozen=True, slots=True, kw_only=True)
class Asynchronous:
    output: Annotated[
        str | None,
        MatchingRule("s3_output", "S3 address"),
        Doc(
            "S3 location of the responses, of your own: `lmi` never deletes what is there. By default they are in the "
            "deployment's bucket, and `lmi down` deletes them.",
            "s3://bucket/answers/",
        ),
    ] = None
    max_concurrent_per_instance: Annotated[
        int | None,
        Limited("max_concurrent_per_instance", "requests"),
        Doc("Concurrent requests per instance; by default SageMaker decides.", "4"),
    ] = None
    success_topic: Annotated[
        str | None,
        MatchingRule("sns_topic", "ARN of an SNS topic"),
        Doc("SNS topic for a notification of each response.", "arn:aws:sns:us-east-1:123456789012:done"),
    ] = None
    error_topic: Annotated[
        str | None,
        MatchingRule("sns_topic", "ARN of an SNS topic"),
        Doc("SNS topic for a notification of each failure.", "arn:aws:sns:us-east-1:123456789012:failed"),
    ] = None
    kms_key: Annotated[
        str | None,
        MatchingRule("kms_key", "KMS key"),
        Doc("KMS key that encrypts the responses; by default the bucket's own encryption.", "alias/answers"),
    ] = None


@digest_tag("DataCapture")
@dataclass(frozen=True, slots=True, kw_only=True)
class DataCapture:
    output: Annotated[
        str,
        MatchingRule("s3_output", "S3 address"),
        Doc(
            "S3 location that SageMaker writes to; `lmi` never deletes what is there.",
            "s3://bucket/captured/",
        ),
    ]
    percentage: Annotated[int, Integer(1, 100), Doc("Percentage of the requests.", "20")] = 100
    content: Annotated[CapturedContent, Doc("What is captured of each.", "requests")] = "both"
    kms_key: Annotated[
        str | None,
        MatchingRule("kms_key", "KMS key"),
        Doc("KMS key that encrypts it; by default the bucket's own encryption.", "alias/captured"),
    ] = None

    @property
    def words(self) -> str:
        what = "requests and responses" if self.content == "both" else self.content
        key = f", encrypted with {self.kms_key}" if self.kms_key else ""
        return f"{what} of {self.percentage} % to {self.output}{key}"


@digest_tag("UpdatePolicy")
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePolicy:
    policy: Annotated[
        UpdatePolicyName, Doc("How requests move from the old instances to the new ones.", "canary")
    ] = "all-at-once"
    step_percent: Annotated[
        int | None,
        Integer(5, 50),
        Doc(
            "Percentage of the instances in the first step (canary) or in each step (linear, rolling); by default at "
            "least 10, and at least one instance.",
            "25",
        ),
    ] = None
    wait: Annotated[
        int, Seconds(0, 3600), Doc("Wait after each step, while the alarms are watched.", "5m")
    ] = 0
    keep_old: Annotated[
        int,
        Seconds(0, 3600),
        Doc("How long the old instances are kept after the last step; not with rolling.", "10m"),
    ] = 0
    alarms: Annotated[
        tuple[str, ...],
        ListOf(OneLine("alarm name"), limit="rollback_alarms"),
        Doc("CloudWatch alarms; if one of them goes off, SageMaker rolls the update back.", "[chat-errors]"),
    ] = ()

    @property
    def words(self) -> str:
        step = f" by {self.step_percent} %" if self.step_percent else ""
        waiting = f", wait {seconds_text(self.wait)} after each step" if self.wait else ""
        kept = f", keep the old instances for {seconds_text(self.keep_old)}" if self.keep_old else ""
        alarms = f", roll back on {', '.join(self.alarms)}" if self.alarms else ""
        return f"{self.policy}{step}{waiting}{kept}{alarms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    target: Annotated[TargetName, Doc("The target: this machine or SageMaker.", "local")] = "sagemaker"
    runtime: Annotated[RuntimeName, Doc("Target local: the model server.", "embedded")] = "auto"
    port: Annotated[
        int | None,
        Integer(1024, 65535),
        Doc("Target local: the port on 127.0.0.1; by default a free one.", "8080"),
    ] = None
    region: Annotated[str | None, EnumOf("regions", "region"), Doc("The AWS region.", "us-east-1")] = None
    regions: Annotated[
        tuple[str, ...],
        ListOf(EnumOf("regions", "region")),
        Doc(
            "Regions in order of preference, at most 5: if one has no capacity or too small a quota, `lmi up` deploys "
            "in the next one.",
            "[us-east-1, us-west-2]",
        ),
    ] = ()
    role: Annotated[
        str | None,
        Named("role"),
        Doc(
            "The execution role; by default `lmi-endpoint`. `lmi iam` prints its policies.",
            "arn:aws:iam::123456789012:role/endpoint",
        ),
    ] = None
    bucket: Annotated[
        str | None,
        Named("bucket"),
        Doc("The bucket of weights and artifacts; by default one per account and region.", "my-models"),
    ] = None
    scheduler_role: Annotated[
        str | None,
        Named("role"),
        Doc(
            "The role with which EventBridge Scheduler deletes the endpoint when its `ttl` is over; without it, "
            "`lmi gc` does. `lmi iam --part scheduler` prints its policy.",
            "lmi-scheduler",
        ),
    ] = None
    count: Annotated[
        int | None,
        Integer(1, 10_000),
        Doc("Number of instances; by default 1, or autoscaling's min if that is more.", "1"),
    ] = None
    instance_pools: Annotated[
        InstancePools | None,
        Doc(
            "The types of `instance_type` become instance pools of one endpoint: SageMaker itself takes the first type "
            "that has capacity, also for each instance that it adds later."
        ),
    ] = None
    volume_gb: Annotated[
        int | None,
        Limited("volume_gb", "GB"),
        Doc(
            "Size of the volume, for types without local disks; by default derived from the weights.",
            "256",
        ),
    ] = None
    share: Annotated[
        str | None,
        Named("deployment name"),
        Doc(
            "The name of an endpoint that several recipes share: this model is one inference component of it. The "
            "first `lmi up` creates it, the last `lmi down` deletes it.",
            "team",
        ),
    ] = None
    component: Annotated[Component | None, Doc("With `share`: how much of the endpoint this model gets.")] = (
        None
    )
    instance_scaling: Annotated[
        InstanceScaling | None,
        Doc(
            "With `share`: SageMaker adds and removes instances as the copies of all models need them (managed "
            "instance scaling). The same in every recipe of the endpoint."
        ),
    ] = None
    kms_key: Annotated[
        str | None,
        MatchingRule("kms_key", "KMS key"),
        Doc("KMS key that encrypts the volume.", "alias/models"),
    ] = None
    network_isolation: Annotated[bool, Doc("Give the container no network access.", "true")] = False
    vpc: Annotated[Vpc | None, Doc("The VPC that the endpoint joins.")] = None
    autoscaling: Annotated[
        Autoscaling | None,
        Doc("Scale the number of instances with the load; with `share`, the number of copies of this model."),
    ] = None
    alarms: Annotated[
        Alarms | None,
        Doc(
            "Notify an SNS topic of errors, of slow answers, and when the memory runs out (CloudWatch alarms)."
        ),
    ] = None
    asynchronous: Annotated[
        Asynchronous | None,
        Doc("Queue the requests, and write the responses to S3: for requests of up to an hour and 1 GB."),
    ] = None
    data_capture: Annotated[
        DataCapture | None, Doc("Keep requests and responses in S3 (SageMaker's Data Capture).")
    ] = None
    update: Annotated[
        UpdatePolicy | None, Doc("How SageMaker replaces the instances when `lmi up` changes the endpoint.")
    ] = None
    candidate: Annotated[
        Candidate | None,
        Doc(
            "A second version that is tried beside this one, on instances of its own "
            "(`lmi docs try-a-second-version`)."
        ),
    ] = None
    tags: Annotated[
        tuple[tuple[str, str], ...], PairsOf("tag"), Doc("Tags for every resource.", "{team: search}")
    ] = ()

    @property
    def initial_count(self) -> int:
        """How many instances it starts with."""
        scaling = self.autoscaling if self.share is None else self.instance_scaling
        return self.count or max(scaling.min if scaling else 1, 1)

    @property
    def most_instances(self) -> int:
        """That the copies on a shared endpoint may be placed on."""
        return self.instance_scaling.max if self.instance_scaling else self.initial_count

    @property
    def initial_copies(self) -> int:
        """How many copies a model on a shared endpoint starts with."""
        given = self.component.copies if self.component else None
        return given or max(self.autoscaling.min if self.autoscaling else 1, 1)
