"""Many deployments, written into an emulator's folder before it starts: no `up` for each.

As a program, so that moto's state of the account lives in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.record_json import record_text
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_BUCKET, TAG_WEIGHTS
from lmi_deploy.emulator.record_store import Store
from lmi_deploy.emulator.services.moto_folder import MotoFolder
from lmi_deploy.emulator.services.s3_objects import s3_backend
from tests.support.emulator_process import ACCOUNT, IMAGE, REGION
from tests.support.factories import SAGEMAKER, generation, serving

AGE = 7200.0
"""Seconds."""
_DIGEST = "0123456789"
_WEIGHTS = f"org--m/{'a' * 40}-{'b' * 8}"
_PER_DEPLOYMENT = ("weights/{}/config.json", "weights/{}/model.safetensors", "manifests/{}.json")


def write(folder: Path, count: int, *, jobs: int = 0) -> None:
    """This many deployments in service, each with its weights and its record, in the folder of a new emulator; and
    jobs that have ended, of deployments that are gone.
    """
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-m", "tests.support.many_deployments", str(folder), str(count), str(jobs)]
    subprocess.run(command, check=True)


def names(count: int) -> list[str]:
    return [f"model-{number:04d}" for number in range(count)]


def _tables(folder: Path, count: int, created: float) -> None:
    store = Store(folder)
    for name in names(count):
        for kind, resource, row in _rows(name, created):
            store.table(kind, REGION).put(resource, row)


def _jobs(folder: Path, count: int, created: float) -> None:
    table = Store(folder).table("processing-jobs", REGION)
    for number in range(count):
        name = f"gone-{number:04d}"
        job, cluster = f"{name}-{_DIGEST}", {"InstanceType": "ml.m5.large", "InstanceCount": 1}
        params = {"ProcessingJobName": job, "ProcessingResources": {"ClusterConfig": cluster}}
        table.put(job, _row("processing-job", job, name, created, status="Completed", params=params))


def _rows(name: str, created: float) -> Iterator[tuple[str, str, dict[str, Any]]]:
    part = f"{name}-{_DIGEST}"
    params: dict[str, Any] = {"ModelName": part, "PrimaryContainer": {"Image": IMAGE}}
    yield "models", part, _row("model", part, name, created, params=params)
    variant: dict[str, Any] = {
        "VariantName": "main",
        "ModelName": part,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }
    params = {"EndpointConfigName": part, "ProductionVariants": [variant]}
    yield "endpoint-configs", part, _row("endpoint-config", part, name, created, params=params)
    served: dict[str, Any] = {
        "config": part,
        "began": created,
        "async": None,
        "capture": None,
        "role": None,
        "variants": [
            {
                "name": "main",
                "params": variant,
                "model": {"PrimaryContainer": {"Image": IMAGE}},
                "count": 1,
                "desired_count": 1,
                "weight": 1.0,
                "desired_weight": 1.0,
            }
        ],
        "shadows": [],
    }
    more = {"status": "InService", "failure": None, "serving": served, "pending": None, "guard": None}
    yield "endpoints", name, _row("endpoint", name, name, created, **more)


def _row(kind: str, resource: str, name: str, created: float, **more: Any) -> dict[str, Any]:
    tags = {TAG: name, TAG_BUCKET: default_bucket(ACCOUNT, REGION), TAG_WEIGHTS: _weights(name)}
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/{resource}"
    return {"arn": arn, "created": created, "modified": created, "tags": tags, **more}


def _weights(name: str) -> str:
    return _WEIGHTS.replace("org--m", f"org--{name}")


def _objects(folder: Path, count: int, created: float) -> None:
    backend, bucket = s3_backend(ACCOUNT), default_bucket(ACCOUNT, REGION)
    backend.create_bucket(bucket, REGION)
    for name in names(count):
        for key, content in _content(name, created).items():
            backend.put_object(bucket, key, content)
    with MotoFolder(folder / "moto", ACCOUNT).keeping("s3"):
        pass


def _content(name: str, created: float) -> Mapping[str, bytes]:
    ref = DeploymentRef(name=name, target="sagemaker", region=REGION, account=ACCOUNT)
    since = datetime.fromtimestamp(created, UTC).isoformat()
    served = replace(
        generation(f"{name}-{_DIGEST}"), since=since, instance="ml.g5.xlarge", serving=serving(SAGEMAKER)
    )
    record = record_text(Record(ref=ref, generations=(served,)))
    weights = {key.format(_weights(name)): b"{}" for key in _PER_DEPLOYMENT}
    return {**weights, f"deployments/{name}/record.json": record.encode()}


if __name__ == "__main__":
    place, total, ended_jobs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    began = time.time() - AGE
    _tables(place, total, began)
    _objects(place, total, began)
    _jobs(place, ended_jobs, began)
