"""Write catalog/limits.json: SageMaker's own vocabulary and limits, from the installed botocore's service model.

Run it after botocore was updated: `python tools/generate_limits.py`. A test compares the table with what is installed.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import botocore
import botocore.session

TABLE = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog" / "limits.json"

RANGES = {
    "model_download": "ProductionVariantModelDataDownloadTimeoutInSeconds",
    "container_startup": "ProductionVariantContainerStartupHealthCheckTimeoutInSeconds",
    "volume_gb": "ProductionVariantVolumeSizeInGB",
    "environment": "EnvironmentMap",
    "subnets": "Subnets",
    "security_groups": "VpcSecurityGroupIds",
    "tags": "TagList",
    "rollback_alarms": "AlarmList",
    "max_concurrent_per_instance": "MaxConcurrentInvocationsPerInstance",
}
TEXTS = {
    "environment_key": "EnvironmentKey",
    "environment_value": "EnvironmentValue",
    "role": "RoleArn",
    "kms_key": "KmsKeyId",
    "subnet": "SubnetId",
    "security_group": "SecurityGroupId",
    "tag_key": "TagKey",
    "tag_value": "TagValue",
    "s3_output": "DestinationS3Uri",
    "sns_topic": "SnsTopicArn",
    "image": "ContainerImage",
}
NAMES = {
    "instance_types": "ProductionVariantInstanceType",
    "host_amis": "ProductionVariantInferenceAmiVersion",
    "job_instance_types": "ProcessingInstanceType",
    "optimization_instance_types": "OptimizationJobDeploymentInstanceType",
}


def table() -> dict[str, Any]:
    """The table without its date."""
    session = botocore.session.get_session()
    model = session.get_service_model("sagemaker")
    regions = (
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("sagemaker", partition)
    )
    return {
        "source": f"botocore {botocore.__version__}, service model sagemaker {model.api_version}",
        "ranges": {key: _range(model.shape_for(shape).metadata) for key, shape in RANGES.items()},
        "texts": {key: _text(model.shape_for(shape).metadata) for key, shape in TEXTS.items()},
        **{key: sorted(model.shape_for(shape).metadata["enum"]) for key, shape in NAMES.items()},
        "regions": sorted(regions),
    }


def _range(metadata: dict[str, Any]) -> list[int]:
    return [metadata["min"], metadata["max"]]


def _text(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"min": metadata["min"], "max": metadata["max"], "pattern": metadata["pattern"]}


def main() -> None:
    """Rewrite the table; its date moves only when something else does."""
    fresh = table()
    known = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if {key: value for key, value in known.items() if key != "date"} == fresh:
        print(f"{TABLE.name}: up to date")
        return
    dated = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), **fresh}
    TABLE.write_text(json.dumps(dated, indent=1) + "\n")
    print(f"{TABLE.name}: written", file=sys.stderr)


if __name__ == "__main__":
    main()
