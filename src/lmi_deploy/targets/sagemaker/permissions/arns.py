"""The resources of one deployment, as policies name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lmi_deploy.domain.default_bucket import GLOBAL_NAMES_ONLY, REGIONAL_SUFFIX, default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.image_build import repository_name
from lmi_deploy.domain.permissions import Condition
from lmi_deploy.domain.recipe_keys import ADAPTER_ENGINES
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.async_layout import async_prefix
from lmi_deploy.domain.sagemaker.dashboard_names import dashboard_name
from lmi_deploy.domain.sagemaker.expiry import schedule_name
from lmi_deploy.domain.sagemaker.s3_layout import artifacts_prefix, weights_of
from lmi_deploy.domain.sagemaker.transfer_job import job_prefix
from lmi_deploy.targets.sagemaker.validate.images import repository_of

_DIGEST = "?" * 10
"""For the hex digits at the end of a model's name: `m-*` would also match the deployment `m-prod`."""


@dataclass(frozen=True, slots=True)
class Arns:
    """With a prefix, those of all deployments whose names start with it, and of every model."""

    spec: Spec
    prefix: str = ""

    @property
    def name(self) -> str:
        return f"{self.prefix}*" if self.prefix else self.spec.name

    @property
    def _digested(self) -> str:
        return self.name if self.prefix else f"{self.name}-{_DIGEST}"

    def of(self, service: str, rest: str) -> str:
        """In each region of a recipe with several."""
        place = self.spec.cloud
        region = "*" if place.regions else place.region
        return f"arn:{place.partition}:{service}:{region}:{place.account}:{rest}"

    @property
    def endpoint(self) -> str:
        return self.of("sagemaker", f"endpoint/{self.name}")

    @property
    def configs(self) -> str:
        return self.of("sagemaker", f"endpoint-config/{self._digested}")

    @property
    def component(self) -> str:
        return self.of("sagemaker", f"inference-component/{self.name}")

    @property
    def own_components(self) -> tuple[str, ...]:
        """Its model on a shared endpoint, and the adapters of that, also those that the recipe no longer has; none
        without a model there.
        """
        if self.spec.cloud.component is None:
            return ()
        if self.prefix or self.spec.engine.name not in ADAPTER_ENGINES:
            return (self.component,)
        return (self.component, self.of("sagemaker", f"inference-component/{self.name}-*-{_DIGEST}"))

    @property
    def components(self) -> str:
        """Of every model on a shared endpoint: what they take is looked up."""
        return self.of("sagemaker", "inference-component/*")

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Its own, and the one that it shares."""
        place = self.spec.cloud.component
        shared = (self.of("sagemaker", f"endpoint/{place.endpoint}"),) if place else ()
        return (self.endpoint, *shared)

    @property
    def endpoint_configs(self) -> tuple[str, ...]:
        place = self.spec.cloud.component
        shared = (self.of("sagemaker", f"endpoint-config/{place.endpoint}-{_DIGEST}"),) if place else ()
        return (self.configs, *shared)

    @property
    def models(self) -> str:
        return self.of("sagemaker", f"model/{self._digested}")

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(self.of("sagemaker", f"processing-job/{job}") for job in self._jobs)

    @property
    def orders(self) -> tuple[str, ...]:
        """The input and the notes of its jobs in the bucket."""
        return self.objects(*(job_prefix(job) for job in self._jobs))

    @property
    def _jobs(self) -> tuple[str, ...]:
        """SageMaker reserves the name of a failed job: the next one of the same digest has a number after it."""
        job = self._digested
        return (job,) if self.prefix else (job, f"{job}-?", f"{job}-??")

    @property
    def bucket(self) -> str:
        """With several regions, the account's default bucket of each."""
        place = self.spec.cloud
        bucket = default_bucket(place.account, "*") if place.regions else place.bucket
        if GLOBAL_NAMES_ONLY.intersection(place.regions):
            bucket = bucket.removesuffix(REGIONAL_SUFFIX)
        return f"arn:{place.partition}:s3:::{bucket}"

    def objects(self, *prefixes: str) -> tuple[str, ...]:
        return tuple(f"{self.bucket}/{prefix}*" for prefix in prefixes)

    def objects_under(self, address: str) -> str:
        """The objects under an s3:// address, in any bucket."""
        prefix = read_prefix(address)
        return f"arn:{self.spec.cloud.partition}:s3:::{prefix.bucket}/{prefix.path}*"

    def bucket_of(self, address: str) -> str:
        return f"arn:{self.spec.cloud.partition}:s3:::{read_prefix(address).bucket}"

    def is_foreign(self, address: str) -> bool:
        """Whether an s3:// address is outside of the asynchronous requests of this deployment."""
        prefix = read_prefix(address)
        own = async_prefix(self.spec.name)
        return prefix.bucket != self.spec.cloud.bucket or not prefix.path.startswith(own)

    @property
    def requests(self) -> str:
        """Asynchronous requests, and by default their responses."""
        return async_prefix(self.name)

    @property
    def artifacts(self) -> str:
        return artifacts_prefix(self.name)

    @property
    def records(self) -> str:
        return f"deployments/{self.name}/"

    @property
    def weights(self) -> tuple[str, ...]:
        """Prefixes of the model's weights and manifests, for any commit."""
        in_place = self.spec.weights.in_place is not None and not self.prefix
        return () if in_place else self._stored(weights_of(self.spec))

    @property
    def own_weights(self) -> tuple[str, ...]:
        """Prefixes of the model's weights, for any commit, without the manifests."""
        return tuple(f"weights/{label}" for label in self._labels((weights_of(self.spec),)))

    @property
    def additional_weights(self) -> tuple[str, ...]:
        """The same of its adapters and its draft model."""
        names = tuple(each.weights_name for each in self.spec.weights.additional)
        return self._stored(*names) if names else ()

    @property
    def moved_weights(self) -> tuple[str, ...]:
        """The same of everything that a transfer job moves: the model, and what else is on the Hub."""
        additional = (each.weights_name for each in self.spec.weights.additional if each.source == "hub")
        return self._stored(weights_of(self.spec), *additional)

    def _stored(self, *names: str) -> tuple[str, ...]:
        return tuple(f"{kind}/{label}" for label in self._labels(names) for kind in ("weights", "manifests"))

    @property
    def loaded_weights(self) -> tuple[str, ...]:
        """Prefixes of the weights that the container reads itself: of adapters the artifact has copies."""
        draft = self.spec.weights.draft
        elsewhere = self.spec.cloud.delivery == "artifact" or self.spec.weights.in_place is not None
        main = () if elsewhere and not self.prefix else (weights_of(self.spec),)
        names = (*main, *((draft.weights_name,) if draft else ()))
        return tuple(f"weights/{label}" for label in self._labels(names))

    def _labels(self, names: Iterable[str]) -> tuple[str, ...]:
        if self.prefix:
            return ("",)
        return tuple(dict.fromkeys(f"{name.partition('/')[0]}/" for name in names))

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Bucket and objects of each model that is read from S3."""
        main = (self.spec.model.source, self.spec.model.model_id)
        additional = ((each.source, each.model_id) for each in self.spec.weights.additional)
        addresses = dict.fromkeys(model_id for source, model_id in (main, *additional) if source == "s3")
        prefixes = (read_prefix(address) for address in addresses)
        arn = f"arn:{self.spec.cloud.partition}:s3:::"
        return tuple((f"{arn}{one.bucket}", f"{arn}{one.bucket}/{one.path}*") for one in prefixes)

    @property
    def targets(self) -> str:
        return self.of("application-autoscaling", "scalable-target/*")

    @property
    def schedule(self) -> str:
        return self.of("scheduler", f"schedule/default/{schedule_name(self.name)}")

    @property
    def dashboard(self) -> str:
        """Dashboards have no region but in their names."""
        place = self.spec.cloud
        name = dashboard_name(self.name, "*" if place.regions else place.region)
        return f"arn:{place.partition}:cloudwatch::{place.account}:dashboard/{name}"

    @property
    def alarms(self) -> tuple[str, ...]:
        """Of target tracking, of step scaling, and of the recipe's alarms."""
        instances, copies = f"endpoint/{self.name}/*", f"inference-component/{self.name}-Alarm*"
        tracked = [copies] if self.spec.cloud.component is not None else [instances]
        if self.prefix and self.spec.cloud.component is not None:
            tracked.insert(0, instances)
        names = (*(f"TargetTracking-{each}" for each in tracked), f"{self.name}-scale-*")
        return (*(self.of("cloudwatch", f"alarm:{name}") for name in names), self.watching_alarms)

    @property
    def watching_alarms(self) -> str:
        return self.of("cloudwatch", f"alarm:{self.name}-alarm-*")

    @property
    def job_logs(self) -> str:
        """The log group of every processing job."""
        return self.of("logs", "log-group:/aws/sagemaker/ProcessingJobs")

    @property
    def group(self) -> str:
        return self.of("logs", log_group(self.name, is_component=self.spec.cloud.component is not None))

    def repository(self, image: str) -> str:
        return repository_resource(
            image, self.spec.cloud.partition, every_region=bool(self.spec.cloud.regions)
        )

    @property
    def own_repository(self) -> str:
        """The repository of images that lmi builds."""
        return self.of("ecr", f"repository/{repository_name(self.name)}")

    @property
    def key(self) -> tuple[str, tuple[Condition, ...]]:
        """The recipe's KMS key: an alias names it by a condition, as a policy cannot by its ARN."""
        return self.key_of(self.spec.cloud.kms_key)

    def key_of(self, given: str) -> tuple[str, tuple[Condition, ...]]:
        return key_resource(given, self.of("kms", "key"))

    @property
    def secret(self) -> str:
        """Secrets Manager adds six characters to a name."""
        given = self.spec.cloud.token_secret
        return given if given.startswith("arn:") else self.of("secretsmanager", f"secret:{given}-??????")


def log_group(name: str, *, is_component: bool) -> str:
    return f"log-group:/aws/sagemaker/{'InferenceComponents' if is_component else 'Endpoints'}/{name}"


def repository_resource(image: str, partition: str, *, every_region: bool = False) -> str:
    """The repository of an image; all repositories if its address does not name one."""
    found = repository_of(image)
    if found is None:
        return "*"
    account, region, name = found
    return f"arn:{partition}:ecr:{'*' if every_region else region}:{account}:repository/{name}"


def key_resource(given: str, keys: str) -> tuple[str, tuple[Condition, ...]]:
    """A key id, its ARN, or an alias, among the keys below this ARN."""
    alias = given.partition(":alias/")[2] or given.removeprefix("alias/")
    if given.startswith("alias/") or ":alias/" in given:
        condition = ("ForAnyValue:StringEquals", "kms:ResourceAliases", (f"alias/{alias}",))
        return f"{keys}/*", (condition,)
    return (given if given.startswith("arn:") else f"{keys}/{given}"), ()
