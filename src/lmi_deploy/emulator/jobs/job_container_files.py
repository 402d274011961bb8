"""The files of a job's container under /opt/ml: from S3 and to S3, with the role's permissions."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.container_files import inside
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.iam.moto_permissions import key_of
from lmi_deploy.emulator.sagemaker.containers import parts_of

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
    kind: str = "PROCESSING"
    """In fault rules."""

    @property
    def role(self) -> str:
        return str(self.params["RoleArn"])


@dataclass(frozen=True, slots=True)
class JobContainerFiles:
    """Of one host, below `root`."""

    context: EmulatorContext
    root: Path
    job: Job

    def write(self, host: str) -> None:
        """Blocks during the downloads; HostingFailed with SageMaker's reason."""
        self._require_grant()
        self._write_configs(host)
        for source in self.job.params.get("ProcessingInputs", ()):
            if not source.get("AppManaged"):
                self._fetch(source["S3Input"], host)

    def collect(self) -> None:
        """Upload the outputs to S3; HostingFailed if the role may not write them."""
        for target in self.job.params.get("ProcessingOutputConfig", {}).get("Outputs", ()):
            if "S3Output" in target and not target.get("AppManaged"):
                self._put(inside(self.root, target["S3Output"]["LocalPath"]), target["S3Output"]["S3Uri"])

    def _allows(self, action: str, resource: str, conditions: Mapping[str, str] | None = None) -> bool:
        return self.context.roles.allows(self.job.role, action, resource, conditions)

    def _require_grant(self) -> None:
        """SageMaker's developer guide, execution role permissions of CreateProcessingJob: kms:CreateGrant with a
        volume key."""
        job = self.job
        key = job.params["ProcessingResources"]["ClusterConfig"].get("VolumeKmsKeyId", "")
        arn, conditions = key_of(job.arn.split(":")[4], job.region, key)
        granted = {**conditions, "kms:grantisforawsresource": "true"}
        if key and not self._allows("kms:CreateGrant", arn, granted):
            raise HostingFailed(
                f"ClientError: The role {job.role} is not authorized to perform: kms:CreateGrant on the key {key} "
                "of the volumes."
            )

    def _write_configs(self, host: str) -> None:
        """The two files that SageMaker writes for a processing container, and its output folder."""
        root, job, folder = self.root, self.job, inside(self.root, CONFIG)
        for created in (folder, inside(root, MESSAGE).parent):
            created.mkdir(parents=True, exist_ok=True)
        for target in job.params.get("ProcessingOutputConfig", {}).get("Outputs", ()):
            if "S3Output" in target and "LocalPath" in target["S3Output"]:
                inside(root, target["S3Output"]["LocalPath"]).mkdir(parents=True, exist_ok=True)
        resources = {"current_host": host, "hosts": list(job.hosts)}
        (folder / "resourceconfig.json").write_text(json.dumps(resources), encoding="utf-8")
        text = json.dumps({"ProcessingJobArn": job.arn, **job.params})
        (folder / "processingjobconfig.json").write_text(localized(root, text), encoding="utf-8")

    def _fetch(self, source: Mapping[str, Any], host: str) -> None:
        place = inside(self.root, source["LocalPath"])
        place.mkdir(parents=True, exist_ok=True)
        bucket, _ = parts_of(source["S3Uri"])
        keys = self._keys(source)
        if source.get("S3DataDistributionType") == "ShardedByS3Key":
            keys = keys[self.job.hosts.index(host) :: len(self.job.hosts)]
        for key, relative in keys:
            if not self._allows("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}"):
                raise HostingFailed(f"ClientError: Cannot download {source['S3Uri']}: Access Denied (403)")
            target = place / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            self.context.objects.fetch(bucket, key, target)

    def _keys(self, source: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The keys of the input, each with its local path; never empty."""
        uri, job = source["S3Uri"], self.job
        bucket, prefix = parts_of(uri)
        may_list = self._allows("s3:ListBucket", f"arn:aws:s3:::{bucket}")
        found = self.context.objects.keys(bucket, prefix) if may_list else []
        if source["S3DataType"] == "ManifestFile" and prefix in found:
            keys = self._listed(bucket, prefix)
        else:
            keys = [(key, relative_to(prefix, key)) for key in found if not key.endswith("/")]
        if not keys:
            raise HostingFailed(
                f'ClientError: No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure '
                f"that the bucket exists in the selected region ({job.region}), that objects exist under that S3 "
                f'prefix, and that the role "{job.role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
            )
        return keys

    def _listed(self, bucket: str, manifest: str) -> list[tuple[str, str]]:
        """A manifest is `[{"prefix": "s3://bucket/a/"}, "one", "two"]`."""
        with tempfile.TemporaryDirectory(prefix="lmi-manifest-") as folder:
            path = Path(folder, "manifest")
            self.context.objects.fetch(bucket, manifest, path)
            first, *names = json.loads(path.read_bytes())
        _, prefix = parts_of(first["prefix"])
        return [(f"{prefix}{name}", name) for name in names]

    def _put(self, folder: Path, uri: str) -> None:
        bucket, prefix = parts_of(uri)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = f"{prefix.rstrip('/')}/{path.relative_to(folder).as_posix()}".lstrip("/")
            if not self._allows("s3:PutObject", f"arn:aws:s3:::{bucket}/{key}"):
                raise HostingFailed(f"ClientError: Cannot upload to {uri}: Access Denied (403)")
            content = path.read_bytes()
            self.context.objects.put(bucket, key, content, content_type="application/octet-stream")


def relative_to(prefix: str, key: str) -> str:
    """The path of an object below the input's folder; `prefix` is a folder, a file, or the start of names."""
    if key == prefix:
        return PurePosixPath(key).name
    if prefix.endswith("/") or key.startswith(f"{prefix}/"):
        return key.removeprefix(prefix).lstrip("/")
    return key[prefix.rfind("/") + 1 :]


def localized(root: Path, text: str) -> str:
    """`text` with every path under /opt/ml replaced by the local path for it."""
    return _PLACE.sub(lambda _: str(inside(root, "/opt/ml")), text)


def exit_message(roots: Iterable[Path]) -> str:
    """The exit messages of the containers, joined, one kilobyte at most."""
    paths = [inside(root, MESSAGE) for root in roots]
    content = b"".join(path.read_bytes() for path in paths if path.is_file())
    try:
        return content[:KILOBYTE].decode("utf-8")
    except UnicodeDecodeError as exc:
        # A character that the limit cuts in two is no fault of the container.
        if len(content) <= KILOBYTE or exc.end < KILOBYTE:
            raise HostingFailed("ClientError: The contents of /opt/ml/output/message are not UTF-8.") from exc
        return content[: exc.start].decode("utf-8")
