"""Any failure of any call of a port: an LmiError with a hint and without a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lmi_deploy.aws.autoscaling import AwsAutoscaling
from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.metrics import EndpointMetrics
from lmi_deploy.aws.quotas import AwsQuotas
from lmi_deploy.aws.resource_tags import AwsResourceTags
from lmi_deploy.aws.retry import POLICY
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.aws.sagemaker.processing_jobs import ProcessingJobs
from lmi_deploy.aws.secrets import AwsSecrets, read_secret
from lmi_deploy.domain.inference_http import HttpRequest
from lmi_deploy.domain.permissions import Permission
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import LmiError
from tests.support.emulator_process import ACCOUNT, Emulated
from tests.support.sagemaker_fixtures import SECRET, TAGS, Recorder, config_settings

TWICE = replace(POLICY, attempts=2)
ARN = f"arn:aws:iam::{ACCOUNT}:role/r"
REQUEST = HttpRequest(body=b"{}", headers=())


def _hosting(recorded: Recorder) -> SageMakerHosting:
    return SageMakerHosting(recorded.access(retries=TWICE), account=ACCOUNT)


def _jobs(recorded: Recorder) -> ProcessingJobs:
    access = recorded.access(retries=TWICE)
    return ProcessingJobs(access, CloudWatchLogs(access), account=ACCOUNT)


CALLS: dict[str, Callable[[Recorder], Any]] = {
    "endpoint": lambda recorded: _hosting(recorded).endpoint("n"),
    "endpoint_config": lambda recorded: _hosting(recorded).endpoint_config("n"),
    "model": lambda recorded: _hosting(recorded).model("n"),
    "tags": lambda recorded: _hosting(recorded).tags(ARN),
    "create": lambda recorded: _hosting(recorded).create_endpoint_config("n", config_settings("n"), TAGS),
    "update": lambda recorded: _hosting(recorded).update_endpoint("n", "n", keep_count=True),
    "delete": lambda recorded: _hosting(recorded).delete_endpoint("n"),
    "tag": lambda recorded: _hosting(recorded).tag(ARN, TAGS),
    "invoke": lambda recorded: list(_hosting(recorded).invoke("n", REQUEST, timeout=10)),
    "scaling": lambda recorded: AwsAutoscaling(recorded.access(retries=TWICE)).scaling("n"),
    "scale": lambda recorded: AwsAutoscaling(recorded.access(retries=TWICE)).scale(
        "n", Scaling(least=1, most=2, invocations=3)
    ),
    "tagged": lambda recorded: AwsResourceTags(recorded.access(retries=TWICE)).all(),
    "group": lambda recorded: CloudWatchLogs(recorded.access(retries=TWICE)).group("n"),
    "metrics": lambda recorded: EndpointMetrics(recorded.access(retries=TWICE)).recent(
        "n", timedelta(hours=1)
    ),
    "lines": lambda recorded: list(CloudWatchLogs(recorded.access(retries=TWICE)).lines("n")),
    "limits": lambda recorded: AwsQuotas(recorded.access(retries=TWICE)).endpoint_instances("ml.g5.xlarge"),
    "assumable": lambda recorded: IamRoles(recorded.access(retries=TWICE)).assumable(ARN),
    "lacking": lambda recorded: IamRoles(recorded.access(retries=TWICE)).lacking(
        ARN, [Permission(action="a:B", resource="*")]
    ),
    "secret": lambda recorded: AwsSecrets(recorded.access(retries=TWICE)).exists("n"),
    "read_secret": lambda recorded: read_secret(recorded.session, "n"),
    "job": lambda recorded: _jobs(recorded).job("n"),
    "stop": lambda recorded: _jobs(recorded).stop("n"),
}
FAILURES: dict[str, Any] = {
    "denied": {"answer": {"status": 403, "body": '{"__type": "AccessDeniedException", "message": "no"}'}},
    "a page": {"answer": {"status": 403, "body": "<html><body>blocked by the proxy</body></html>"}},
    "cut": {"cut": {"after": 1}},
}


@pytest.mark.parametrize("problem", FAILURES)
@pytest.mark.parametrize("call", CALLS)
def test_every_failure_of_every_call_has_a_hint_and_no_secret(
    aws: Emulated, recorder: Recorder, call: str, problem: str
) -> None:
    aws.fault({"path": "^/(?!_)", "do": FAILURES[problem], "times": None})
    with pytest.raises(LmiError) as caught:
        CALLS[call](recorder)
    output = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert SECRET not in output
    assert "Signature=" not in output
