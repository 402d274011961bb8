"""The port EventHistory: CloudTrail's event history, which every account has, without a trail.

Sources: CloudTrail's API reference, LookupEvents (events of 90 days in the region, the newest first, 50 a page, one
attribute a request, two requests a second); its user guide, "CloudTrail record contents"; SageMaker developer guide,
"Log Amazon SageMaker API calls with CloudTrail" (names of parameters begin with a small letter).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.resource_fields import moment
from lmi_deploy.ports.event_history import EndpointCall

_DEPLOYS: Final = ("CreateEndpoint", "UpdateEndpoint")
_SCALES: Final = "UpdateEndpointWeightsAndCapacities"
_CREATES: Final = "CreateEndpointConfig"


_MOST: Final = 200
"""Events of each kind that are read, of the whole account and region: in an account with more, the older ones are
missing.
"""


class CloudTrailEvents:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "cloudtrail")

    def calls(self, endpoint: str) -> tuple[EndpointCall, ...]:
        found = [
            (at, name, event)
            for name in (*_DEPLOYS, _SCALES)
            for at, event in self._events(name)
            if _parameters(event).get("endpointName") == endpoint
        ]
        found.sort(key=lambda one: one[0])
        created = [number for number, (_, name, _) in enumerate(found) if name == "CreateEndpoint"]
        found = found[created[-1] :] if created else found
        configs = {
            str(wanted["endpointConfigName"]): wanted
            for _, event in (self._events(_CREATES) if found else ())
            if (wanted := _parameters(event)).get("endpointConfigName")
        }
        return tuple(_call(at, event, configs) for at, _, event in found)

    def _events(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Without the requests that were refused."""
        pages = self._api.pages(
            "lookup_events",
            "history of API calls",
            token="NextToken",
            items="Events",
            LookupAttributes=[{"AttributeKey": "EventName", "AttributeValue": name}],
        )
        for one in islice(pages, _MOST):
            event = json.loads(one["CloudTrailEvent"])
            if "errorCode" not in event:
                yield moment(one["EventTime"]), event


def _call(at: str, event: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]) -> EndpointCall:
    parameters = _parameters(event)
    config = str(parameters.get("endpointConfigName", ""))
    variants = configs.get(config, {}).get("productionVariants", ())
    variant: Mapping[str, Any] = next(iter(variants), {})
    changes: Mapping[str, Any] = next(iter(parameters.get("desiredWeightsAndCapacities", ())), {})
    pools = [pool["instanceType"] for pool in variant.get("instancePools", ())]
    return EndpointCall(
        at=at,
        by=str(event.get("userIdentity", {}).get("arn", "")),
        is_ours="lmi-deploy/" in str(event.get("userAgent", "")),
        config=config,
        types=tuple(pools or filter(None, (variant.get("instanceType", ""),))),
        count=int(variant.get("initialInstanceCount") or changes.get("desiredInstanceCount") or 0),
    )


def _parameters(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return event.get("requestParameters") or {}
