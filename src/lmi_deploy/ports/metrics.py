"""What endpoints and inference components measured of their requests and their use. Metrics are some minutes late."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Protocol

from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT


class Metrics(Protocol):
    def used(
        self,
        endpoints: Collection[str],
        *,
        since: datetime,
        until: datetime,
        components: Collection[str] = (),
    ) -> frozenset[str]:
        """Those of these endpoints and inference components that had a request between the two times, or that have one
        in their queue.

        CloudError if the service does not answer for all of them: one without data must not count as unused.
        """

    def recent(
        self, name: str, span: timedelta, variant: str = VARIANT, *, component: bool = False
    ) -> RecentMetrics:
        """The last `span` of this variant of an endpoint, or of an inference component, up to now by CloudWatch's
        clock; in one request.
        """

    def between(
        self,
        name: str,
        since: datetime,
        until: datetime,
        variant: str = VARIANT,
        *,
        component: bool = False,
    ) -> RecentMetrics:
        """The same between two whole minutes of this machine's clock: of several minutes the median of their medians,
        and the highest p99.
        """
