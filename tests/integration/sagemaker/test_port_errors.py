"""Whatever happens on the way, and whichever port is asked: an error of ours, with a hint, and no secret in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lmi_deploy.aws.autoscaling import AwsScalers
from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.quotas import AwsLimits
from lmi_deploy.aws.resource_tags import AwsTagged
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.aws.sagemaker.processing_jobs import ProcessingJobs
from lmi_deploy.aws.secrets import AwsSecrets, read_secret
from lmi_deploy.domain.inference_http import HttpRequest
from lmi_deploy.domain.sagemaker.settings import Scaling
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.iam import Right
from tests.support.emulator_process import ACCOUNT, Emulated
from tests.support.sagemaker_fixtures import SECRET, TAGS, Told, config_settings

ARN = f"arn:aws:iam::{ACCOUNT}:role/r"
REQUEST = HttpRequest(body=b"{}", headers=())


def _hosting(told: Told) -> SageMakerHosting:
    return SageMakerHosting(told.access(rounds=2), account=ACCOUNT)


def _jobs(told: Told) -> ProcessingJobs:
    access = told.access(rounds=2)
    return ProcessingJobs(access, CloudWatchLogs(access), account=ACCOUNT)


CALLS: dict[str, Callable[[Told], Any]] = {
    "endpoint": lambda told: _hosting(told).endpoint("n"),
    "endpoint_config": lambda told: _hosting(told).endpoint_config("n"),
    "model": lambda told: _hosting(told).model("n"),
    "tags": lambda told: _hosting(told).tags(ARN),
    "create": lambda told: _hosting(told).create_endpoint_config("n", config_settings("n"), TAGS),
    "update": lambda told: _hosting(told).update_endpoint("n", "n", keep_count=True),
    "delete": lambda told: _hosting(told).delete_endpoint("n"),
    "tag": lambda told: _hosting(told).tag(ARN, TAGS),
    "invoke": lambda told: list(_hosting(told).invoke("n", REQUEST, timeout=10)),
    "scaling": lambda told: AwsScalers(told.access(rounds=2)).scaling("n"),
    "scale": lambda told: AwsScalers(told.access(rounds=2)).scale(
        "n", Scaling(least=1, most=2, invocations=3)
    ),
    "tagged": lambda told: AwsTagged(told.access(rounds=2)).all(),
    "group": lambda told: CloudWatchLogs(told.access(rounds=2)).group("n"),
    "lines": lambda told: list(CloudWatchLogs(told.access(rounds=2)).lines("n")),
    "limits": lambda told: AwsLimits(told.access(rounds=2)).endpoint_instances("ml.g5.xlarge"),
    "assumable": lambda told: IamRoles(told.access(rounds=2)).assumable(ARN),
    "lacking": lambda told: IamRoles(told.access(rounds=2)).lacking(ARN, [Right(action="a:B", resource="*")]),
    "secret": lambda told: AwsSecrets(told.access(rounds=2)).exists("n"),
    "read_secret": lambda told: read_secret(told.session, "n"),
    "job": lambda told: _jobs(told).job("n"),
    "stop": lambda told: _jobs(told).stop("n"),
}
TROUBLES: dict[str, Any] = {
    "denied": {"answer": {"status": 403, "body": '{"__type": "AccessDeniedException", "message": "no"}'}},
    "a page": {"answer": {"status": 403, "body": "<html><body>blocked by the proxy</body></html>"}},
    "cut": {"cut": {"after": 1}},
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_ours_with_a_hint_and_no_secret(
    aws: Emulated, told: Told, call: str, trouble: str
) -> None:
    aws.fault({"path": "^/(?!_)", "do": TROUBLES[trouble], "times": None})
    with pytest.raises(LmiError) as caught:
        CALLS[call](told)
    said = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert SECRET not in said
    assert "Signature=" not in said
