"""A transfer that runs inside AWS: the input of its instances, and which instance transfers which file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import ADDED, digest_tag
from lmi_deploy.domain.weights import StoredFile

ORDER_SCHEMA: Final = 2
JOBS: Final = "jobs/"
COMPILE_JOB: Final = "lmi-compile-"
"""The names of compile jobs begin so. The rest is the result's identity: deployments that need the same result share
its job."""
JobKind = Literal["processing-job", "optimization-job"]
JobPurpose = Literal["transfer", "load"]
LOAD_INPUT: Final = "load"
"""The input of a job that sends load; no transfer job has one of this name."""
INPUT: Final = "/opt/ml/processing/input"
"""Where a processing job finds its input."""


@digest_tag("JobSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """All of CreateProcessingJob but name and tags."""

    role: str
    image: str
    instance: str
    count: int
    volume_gb: int
    command: tuple[str, ...]
    environment: Pairs
    inputs: tuple[tuple[str, str, str], ...]
    """(name, s3:// prefix, folder in the container)."""
    timeout: int
    """Seconds."""
    kms_key: str = ""
    vpc: Vpc | None = None
    outputs: Pairs = field(default=(), metadata=ADDED)
    """(folder in the container, s3:// prefix): uploaded at the end."""
    local_disks: bool = field(default=False, metadata=ADDED)
    """Whether the instance has them: SageMaker accepts no key for its volumes then (ProcessingClusterConfig)."""

    @property
    def title(self) -> str:
        return f"a processing job on {self.count} x {self.instance}"

    @property
    def purpose(self) -> JobPurpose:
        return purpose_of([name for name, _, _ in self.inputs])


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """`status`: InProgress, Completed, Failed, Stopping, Stopped; or UNREADABLE. `message` is the container's last."""

    name: str
    arn: str
    status: str
    reason: str = ""
    message: str = ""
    instance: str = ""
    count: int = 0
    kind: JobKind = "processing-job"
    purpose: JobPurpose = "transfer"
    started: str = ""
    """When it got its machines, ISO 8601; empty: not yet."""
    ended: str = ""

    @property
    def is_running(self) -> bool:
        """Whether it has machines, which cost."""
        return self.status in RUNNING


def purpose_of(inputs: Sequence[str]) -> JobPurpose:
    """By the names of a job's inputs."""
    return "load" if LOAD_INPUT in inputs else "transfer"


RUNNING: Final = frozenset({"InProgress", "Stopping"})
DELETED: Final = "Deleted"
"""In place of the status of a load job that no longer exists, but whose objects are in the bucket."""
UNREADABLE: Final = "unreadable"
"""In place of a status that may not be read."""


def attempt_name(job: str, number: int) -> str:
    """The name of the first, second, third job of a plan: SageMaker reserves the names of finished jobs."""
    return job if number == 1 else f"{job}-{number}"


def is_attempt(name: str, job: str) -> bool:
    """Whether a job is one of those of this plan's name."""
    return name == job or (name.startswith(f"{job}-") and name[len(job) + 1 :].isdigit())


def compile_job_of(name: str) -> str:
    """The name of the first attempt, by which the files of all attempts are found; empty if it is no compile job."""
    found = re.fullmatch(rf"({COMPILE_JOB}[0-9a-f]{{20}})(-\d{{1,3}})?", name)
    return found[1] if found else ""


def job_prefix(job: str) -> str:
    """The input and the notes of a job; deleted once its manifest is written."""
    return f"{JOBS}{job}/"


def load_prefix(job: str) -> str:
    """What a job that sends load gets, and what its machines and lmi tell each other."""
    return f"{job_prefix(job)}{LOAD_INPUT}/"


def load_job_of(key: str, deployment: str) -> str:
    """The load job of a deployment to which this object belongs; empty if it belongs to none."""
    form = rf"{JOBS}({re.escape(deployment)}-[0-9a-f]{{10}}(-\d{{1,3}})?)/{LOAD_INPUT}/"
    found = re.match(form, key)
    return found[1] if found else ""


def shard_key(job: str, weights: str, number: int) -> str:
    """Where one instance lists the files of a model that it has transferred, for the instance that finishes last."""
    return f"{job_prefix(job)}shards/{weights}/{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One transfer. No secret in it: `token_secret` names the secret that the job's role may read; empty: none."""

    job: str
    bucket: str
    owner: str
    kms_key: str
    listings: tuple[ModelListing, ...]
    """Of each model, the chosen files of one commit."""
    token_secret: str
    memory: int
    """Bytes, for each instance."""


def order_text(order: JobRequest) -> str:
    return json.dumps({"schema": ORDER_SCHEMA, **asdict(order)}, indent=1) + "\n"


def read_order(text: str | bytes) -> JobRequest:
    """ValueError if the text is not a job request that this lmi knows."""
    found = json.loads(text)
    try:
        if found.pop("schema") != ORDER_SCHEMA:
            raise ValueError("written by another version of lmi")
        listings = tuple(_listing(listing) for listing in found.pop("listings"))
        return JobRequest(listings=listings, **found)
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"not a job request: {exc}") from exc


def _listing(found: dict[str, Any]) -> ModelListing:
    files = tuple(FileEntry(**file) for file in found.pop("files"))
    return ModelListing(files=files, **found)


def shard_text(files: tuple[StoredFile, ...]) -> str:
    return json.dumps([asdict(file) for file in files]) + "\n"


def read_shard(text: str | bytes) -> tuple[StoredFile, ...]:
    return tuple(StoredFile(**file) for file in json.loads(text))


def shard_of(files: tuple[FileEntry, ...], number: int, count: int) -> tuple[FileEntry, ...]:
    """The files of instance `number` (from 0) of `count`: the same on every instance, loads as even as files allow."""
    loads = [0] * count
    own = []
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        lightest = loads.index(min(loads))
        loads[lightest] += file.size
        if lightest == number:
            own.append(file)
    return tuple(sorted(own, key=lambda file: file.path))
