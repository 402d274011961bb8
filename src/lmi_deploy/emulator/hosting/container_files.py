"""The files of a container under /opt/ml: downloaded from S3 with the role's permissions, into a local folder."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties, write_properties
from lmi_deploy.domain.tar_headers import BoundedHeaders
from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.sagemaker.containers import MODEL_FOLDER, ModelSource, parts_of, sources_of

DOWNLOADS: Final = "/tmp/download"
MODEL_ID_KEYS: Final = ("option.model_id", "option.s3url")
MODEL_ID_VARIABLES: Final = ("OPTION_MODEL_ID", "HF_MODEL_ID", "OPTION_S3URL")


@dataclass(frozen=True, slots=True)
class Layout:
    """`root` is the folder used as the container's /; `complaint` is what the container would print before it exits."""

    root: Path
    environment: Mapping[str, str]
    complaint: str = ""

    @property
    def model_folder(self) -> Path:
        return inside(self.root, MODEL_FOLDER)


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Below `root`, with the rights of `role`."""

    context: EmulatorContext
    root: Path
    role: str

    def write(self, container: Mapping[str, Any], *, isolated: bool) -> Layout:
        """Blocks during the download; HostingFailed with SageMaker's reason."""
        inside(self.root, MODEL_FOLDER).mkdir(parents=True, exist_ok=True)
        for source in sources_of(container):
            self._fetch(source, inside(self.root, source.place))
        given = container.get("Environment", {})
        environment = {key: _local(self.root, value) for key, value in given.items()}
        try:
            self._fetch_model_id(environment, isolated=isolated)
        except _ContainerStartError as exc:
            return Layout(self.root, environment, complaint=str(exc))
        return Layout(self.root, environment)

    def require_access(self, container: Mapping[str, Any], what: str) -> None:
        """That one more instance could get all of it: looked up, not downloaded. HostingFailed if it could not."""
        named = [*container.get("Environment", {}).items()]
        for source in sources_of(container):
            keys = [key for key, _ in self._objects_to_fetch(source)]
            if not keys:
                raise _no_download(source.uri)
            named += self._properties(source.bucket, f"{source.key}{SERVING_PROPERTIES}", keys)
        wanted = {*MODEL_ID_KEYS, *MODEL_ID_VARIABLES}
        for uri in (value for name, value in named if name in wanted and value.startswith("s3://")):
            try:
                keys = [key for key, _ in self._objects_to_fetch(_synced(uri))]
            except HostingFailed:
                keys = []
            if not keys:
                raise no_ping(what)

    def _properties(self, bucket: str, key: str, keys: list[str]) -> Iterator[tuple[str, str]]:
        if key not in keys:
            return
        with TemporaryDirectory() as folder:
            self.context.objects.fetch(bucket, key, path := Path(folder) / SERVING_PROPERTIES)
            with suppress(ValueError):  # the server would report it
                yield from parse_properties(path.read_bytes()).items()

    def unpack_archive(self, uri: str, place: Path) -> None:
        """Blocks; HostingFailed unless it is one tar.gz that the role may read."""
        if not uri.startswith("s3://") or not uri.endswith(".tar.gz"):
            raise _no_download(uri)
        bucket, key = parts_of(uri)
        self._fetch(
            ModelSource(uri=uri, bucket=bucket, key=key, place=str(place), is_folder=False, is_archive=True),
            place,
        )

    def _fetch(self, source: ModelSource, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        required = list(self._objects_to_fetch(source))
        if not required:
            raise _no_download(source.uri)
        for key, relative in required:
            target = place / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.context.objects.fetch(source.bucket, key, target)
            except OSError as exc:
                raise _no_download(source.uri) from exc
            if source.is_archive:
                _unpack(target, place)

    def _objects_to_fetch(self, source: ModelSource) -> Iterator[tuple[str, str]]:
        """Keys that the role may read, each with its place; HostingFailed at the first that it may not."""
        bucket, roles, role = f"arn:aws:s3:::{source.bucket}", self.context.roles, self.role
        if not roles.trusts(role, "sagemaker.amazonaws.com"):
            raise _no_download(source.uri)
        if source.is_folder and not roles.allows(role, "s3:ListBucket", bucket):
            raise _no_download(source.uri)
        for key in self.context.objects.keys(source.bucket, source.key):
            relative = key.removeprefix(source.key) if source.is_folder else PurePosixPath(key).name
            if not relative or relative.endswith("/") or (not source.is_folder and key != source.key):
                continue
            if not roles.allows(role, "s3:GetObject", f"{bucket}/{key}"):
                raise _no_download(source.uri)
            if ".." in PurePosixPath(relative).parts:
                raise _no_download(source.uri)
            yield key, relative.lstrip("/")

    def _fetch_model_id(self, environment: dict[str, str], *, isolated: bool) -> None:
        for name in MODEL_ID_VARIABLES:
            if environment.get(name, "").startswith("s3://"):
                environment[name] = self._sync(environment[name], isolated=isolated)
        path = inside(self.root, MODEL_FOLDER) / SERVING_PROPERTIES
        if not path.is_file():
            return
        try:
            found = parse_properties(path.read_bytes())
        except ValueError:
            return  # the server will report it
        changed = {key: _local(self.root, value) for key, value in found.items()}
        for key in MODEL_ID_KEYS:
            if found.get(key, "").startswith("s3://"):
                # The server hands the folder to the handler as model_id, whichever key named the address.
                del changed[key]
                changed["option.model_id"] = self._sync(found[key], isolated=isolated)
        if changed != found:
            path.write_bytes(write_properties(changed.items()))

    def _sync(self, uri: str, *, isolated: bool) -> str:
        """As the container's s5cmd does it: the whole prefix, before the model is loaded. Where the weights are now."""
        source = _synced(uri)
        bucket, key = source.bucket, source.key
        place = inside(self.root, DOWNLOADS) / PurePosixPath(key).name
        error = f'ERROR "sync s3://{bucket}/{key}* {DOWNLOADS}": '
        if isolated:
            raise _ContainerStartError(f"{error}network is unreachable")
        try:
            self._fetch(source, place)
        except HostingFailed as exc:
            if self.context.objects.keys(bucket, key):
                raise _ContainerStartError(f"{error}AccessDenied: Access Denied status code: 403") from exc
            raise _ContainerStartError(f"{error}no object found") from exc
        return str(place)


class _ContainerStartError(Exception):
    """The container cannot get its weights; the hosting service only sees that it does not respond."""


def _no_download(uri: str) -> HostingFailed:
    return HostingFailed(
        f'Failed to download model data for container "container_1" from URL: "{uri}". Please ensure that '
        "there is an object located at the URL and that the role passed to CreateModel has permissions to "
        "download the object."
    )


def _synced(uri: str) -> ModelSource:
    """What the container's s5cmd downloads itself."""
    bucket, prefix = parts_of(uri)
    key = prefix if prefix.endswith("/") else f"{prefix}/"
    return ModelSource(uri=uri, bucket=bucket, key=key, place=DOWNLOADS, is_folder=True, is_archive=False)


def no_ping(what: str) -> HostingFailed:
    return HostingFailed(
        f"The primary container for {what} did not pass the ping health check. "
        "Please check CloudWatch logs for this endpoint."
    )


def inside(root: Path, path: str) -> Path:
    """The container's absolute path, below the folder that is used as its /."""
    return root / path.lstrip("/")


def _local(root: Path, value: str) -> str:
    """A value that names a place under /opt/ml means that place here."""
    return str(inside(root, value)) if value.startswith("/opt/ml/") else value


def _unpack(archive: Path, place: Path) -> None:
    try:
        with tarfile.open(archive, "r:gz", tarinfo=BoundedHeaders) as tar:
            tar.extractall(place, filter="data")
    except (tarfile.TarError, OSError, EOFError) as exc:
        raise HostingFailed(
            'Failed to extract model data archive for container "container_1". Please ensure that the object '
            "located at the URL is a valid tar.gz archive."
        ) from exc
    archive.unlink(missing_ok=True)


def require_container(model: Mapping[str, Any] | None, what: str) -> Mapping[str, Any]:
    """The first container of a model; pipelines of several are not emulated."""
    existing = (model or {}).get("PrimaryContainer") or next(
        iter((model or {}).get("Containers") or ()), None
    )
    if existing is None:
        raise HostingFailed(f"There is no container to start for {what}.")
    found: Mapping[str, Any] = existing
    return found
