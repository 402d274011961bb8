"""The files of a job's container under /opt/ml: from S3 and to S3, with the role's permissions."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lmi_deploy.emulator.context import Roles
from lmi_deploy.emulator.hosting.container_files import inside
from lmi_deploy.emulator.hosting.s3_reader import ObjectSource
from lmi_deploy.emulator.iam.implied_permissions import key_of
from lmi_deploy.emulator.jobs.failure_reasons import denied, no_grant, no_input, no_text, not_stored
from lmi_deploy.emulator.sagemaker.model_sources import parts_of

CONFIG: Final = "/opt/ml/config"
MESSAGE: Final = "/opt/ml/output/message"
KILOBYTE: Final = 1024
_PLACE: Final = re.compile(r"(?<![\w.-])/opt/ml(?![\w-])")


@dataclass(frozen=True, slots=True)
class Job:
    """A job as requested; `hosts` are the names of its machines, in order."""

    region: str
    name: str
    arn: str
    params: Mapping[str, Any]
    hosts: tuple[str, ...]

    @property
    def role(self) -> str:
        return str(self.params["RoleArn"])


@dataclass(frozen=True, slots=True)
class JobContainerFiles:
    objects: ObjectSource
    roles: Roles

    def write(self, root: Path, job: Job, host: str) -> None:
        """Blocks during the downloads; HostingFailed with SageMaker's reason."""
        self._require_grant(job)
        write_configs(root, job, host)
        for source in job.params.get("ProcessingInputs", ()):
            if not source.get("AppManaged"):
                self._fetch(root, source["S3Input"], job, host)

    def _require_grant(self, job: Job) -> None:
        """SageMaker's developer guide, execution role permissions of CreateProcessingJob: kms:CreateGrant with a
        volume key."""
        key = job.params["ProcessingResources"]["ClusterConfig"].get("VolumeKmsKeyId", "")
        account = job.arn.split(":")[4]
        arn, context = key_of(account, job.region, key)
        if key and not self.roles.allows(
            job.role, "kms:CreateGrant", arn, {**context, "kms:grantisforawsresource": "true"}
        ):
            raise no_grant(job.role, key)

    def _fetch(self, root: Path, source: Mapping[str, Any], job: Job, host: str) -> None:
        place = inside(root, source["LocalPath"])
        place.mkdir(parents=True, exist_ok=True)
        bucket, _ = parts_of(source["S3Uri"])
        keys = self._keys(source, job)
        if source.get("S3DataDistributionType") == "ShardedByS3Key":
            number = job.hosts.index(host)
            keys = keys[number :: len(job.hosts)]
        for key, relative in keys:
            if not self.roles.allows(job.role, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}"):
                raise denied(source["S3Uri"])
            target = place / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            self.objects.fetch(bucket, key, target)

    def _keys(self, source: Mapping[str, Any], job: Job) -> list[tuple[str, str]]:
        """The keys of the input, each with its local path; never empty."""
        uri = source["S3Uri"]
        bucket, prefix = parts_of(uri)
        may_list = self.roles.allows(job.role, "s3:ListBucket", f"arn:aws:s3:::{bucket}")
        found = self.objects.keys(bucket, prefix) if may_list else []
        if source["S3DataType"] == "ManifestFile" and prefix in found:
            keys = list(self._listed(bucket, prefix))
        else:
            keys = [(key, relative_to(prefix, key)) for key in found if not key.endswith("/")]
        if not keys:
            raise no_input(uri, job.role, job.region, bucket)
        return keys

    def _listed(self, bucket: str, manifest: str) -> Iterator[tuple[str, str]]:
        """A manifest is `[{"prefix": "s3://bucket/a/"}, "one", "two"]`."""
        with tempfile.TemporaryDirectory(prefix="lmi-manifest-") as folder:
            path = Path(folder, "manifest")
            self.objects.fetch(bucket, manifest, path)
            first, *names = json.loads(path.read_bytes())
        _, prefix = parts_of(first["prefix"])
        yield from ((f"{prefix}{name}", name) for name in names)

    def collect(self, root: Path, job: Job) -> None:
        """Upload the outputs to S3; HostingFailed if the role may not write them."""
        for target in job.params.get("ProcessingOutputConfig", {}).get("Outputs", ()):
            if "S3Output" in target and not target.get("AppManaged"):
                self._put(
                    inside(root, target["S3Output"]["LocalPath"]), target["S3Output"]["S3Uri"], job.role
                )

    def _put(self, folder: Path, uri: str, role: str) -> None:
        bucket, prefix = parts_of(uri)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = f"{prefix.rstrip('/')}/{path.relative_to(folder).as_posix()}".lstrip("/")
            if not self.roles.allows(role, "s3:PutObject", f"arn:aws:s3:::{bucket}/{key}"):
                raise not_stored(uri)
            self.objects.put(bucket, key, path.read_bytes(), content_type="application/octet-stream")


def relative_to(prefix: str, key: str) -> str:
    """The path of an object below the input's folder; `prefix` is a folder, a file, or the start of names."""
    if key == prefix:
        return PurePosixPath(key).name
    if prefix.endswith("/") or key.startswith(f"{prefix}/"):
        return key.removeprefix(prefix).lstrip("/")
    return key[prefix.rfind("/") + 1 :]


def write_configs(root: Path, job: Job, host: str) -> None:
    """The two files that SageMaker writes for a processing container, and its output folder."""
    folder = inside(root, CONFIG)
    for created in (folder, inside(root, MESSAGE).parent):
        created.mkdir(parents=True, exist_ok=True)
    for target in job.params.get("ProcessingOutputConfig", {}).get("Outputs", ()):
        if "S3Output" in target and "LocalPath" in target["S3Output"]:
            inside(root, target["S3Output"]["LocalPath"]).mkdir(parents=True, exist_ok=True)
    resources = {"current_host": host, "hosts": list(job.hosts)}
    (folder / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
    text = json.dumps({"ProcessingJobArn": job.arn, **job.params})
    (folder / "processingjobconfig.json").write_text(localized(root, text), encoding="utf-8")


def localized(root: Path, text: str) -> str:
    """`text` with every path under /opt/ml replaced by the local path for it."""
    return _PLACE.sub(lambda _: str(inside(root, "/opt/ml")), text)


def exit_message(roots: Sequence[Path]) -> str:
    """The exit messages of the containers, joined, one kilobyte at most."""
    paths = [inside(root, MESSAGE) for root in roots]
    content = b"".join(path.read_bytes() for path in paths if path.is_file())
    try:
        return content[:KILOBYTE].decode("utf-8")
    except UnicodeDecodeError as exc:
        # A character that the limit cuts in two is no fault of the container.
        if len(content) <= KILOBYTE or exc.end < KILOBYTE:
            raise no_text() from exc
        return content[: exc.start].decode("utf-8")
