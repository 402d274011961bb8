"""The resources of one deployment, as policies name them."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.core.delivery import artifacts_prefix, weights_of
from lmi_deploy.core.rights import Condition
from lmi_deploy.core.s3_address import read_prefix
from lmi_deploy.core.spec import Spec
from lmi_deploy.decide.hosting.images import repository_of

_DIGEST = "?" * 10
"""For the hex digits at the end of a model's name: `m-*` would take in the deployment `m-prod`, too."""


@dataclass(frozen=True, slots=True)
class Arns:
    spec: Spec

    def of(self, service: str, rest: str) -> str:
        place = self.spec.cloud
        return f"arn:{place.partition}:{service}:{place.region}:{place.account}:{rest}"

    @property
    def endpoint(self) -> str:
        return self.of("sagemaker", f"endpoint/{self.spec.name}")

    @property
    def configs(self) -> str:
        return self.of("sagemaker", f"endpoint-config/{self.spec.name}-{_DIGEST}")

    @property
    def models(self) -> str:
        return self.of("sagemaker", f"model/{self.spec.name}-{_DIGEST}")

    @property
    def jobs(self) -> tuple[str, ...]:
        """SageMaker keeps the name of a job that failed: the next one of the same digest has a number after it."""
        job = self.of("sagemaker", f"processing-job/{self.spec.name}-{_DIGEST}")
        return job, f"{job}-?", f"{job}-??"

    @property
    def bucket(self) -> str:
        return f"arn:{self.spec.cloud.partition}:s3:::{self.spec.cloud.bucket}"

    def objects(self, *prefixes: str) -> tuple[str, ...]:
        return tuple(f"{self.bucket}/{prefix}*" for prefix in prefixes)

    @property
    def artifacts(self) -> str:
        return artifacts_prefix(self.spec.name)

    @property
    def label(self) -> str:
        """What the model is called in the bucket, whatever its commit."""
        return weights_of(self.spec).partition("/")[0]

    @property
    def source(self) -> tuple[str, str] | None:
        """Bucket and objects of a model that is read from S3; None for any other."""
        if self.spec.model.source != "s3":
            return None
        prefix = read_prefix(self.spec.model.model_id)
        bucket = f"arn:{self.spec.cloud.partition}:s3:::{prefix.bucket}"
        return bucket, f"{bucket}/{prefix.path}*"

    @property
    def targets(self) -> str:
        return self.of("application-autoscaling", "scalable-target/*")

    @property
    def group(self) -> str:
        return self.of("logs", f"log-group:/aws/sagemaker/Endpoints/{self.spec.name}")

    @property
    def repositories(self) -> tuple[str, ...]:
        """Of the endpoint's image and of a transfer job's; all there are where an address does not tell."""
        place = self.spec.cloud
        images = (place.image, *([place.job.image] if place.job else []))
        return tuple(sorted({self._repository(image) for image in images}))

    def _repository(self, image: str) -> str:
        found = repository_of(image)
        if found is None:
            return "*"
        account, region, name = found
        return f"arn:{self.spec.cloud.partition}:ecr:{region}:{account}:repository/{name}"

    @property
    def key(self) -> tuple[str, tuple[Condition, ...]]:
        """The KMS key: an alias names it by a condition, as a policy cannot by its ARN."""
        given = self.spec.cloud.kms_key
        alias = given.partition(":alias/")[2] or given.removeprefix("alias/")
        if given.startswith("alias/") or ":alias/" in given:
            condition = ("ForAnyValue:StringEquals", "kms:ResourceAliases", (f"alias/{alias}",))
            return self.of("kms", "key/*"), (condition,)
        return (given, ()) if given.startswith("arn:") else (self.of("kms", f"key/{given}"), ())

    @property
    def secret(self) -> str:
        """Secrets Manager adds six characters to a name."""
        given = self.spec.cloud.token_secret
        return given if given.startswith("arn:") else self.of("secretsmanager", f"secret:{given}-??????")
