"""Why an endpoint failed, in the words of SageMaker's FailureReason."""

from __future__ import annotations


class HostingFailed(Exception):
    """`reason` is copied unchanged into the endpoint's record."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def no_ping(what: str) -> HostingFailed:
    return HostingFailed(
        f"The primary container for {what} did not pass the ping health check. "
        "Please check CloudWatch logs for this endpoint."
    )


def no_download(uri: str) -> HostingFailed:
    return HostingFailed(
        f'Failed to download model data for container "container_1" from URL: "{uri}". Please ensure that '
        "there is an object located at the URL and that the role passed to CreateModel has permissions to "
        "download the object."
    )


def slow_download(uri: str, seconds: float) -> HostingFailed:
    return HostingFailed(
        f'Failed to download model data for container "container_1" from URL: "{uri}" within '
        f"{seconds:.0f} seconds. Please increase ModelDataDownloadTimeoutInSeconds of the production variant."
    )


def no_archive() -> HostingFailed:
    return HostingFailed(
        'Failed to extract model data archive for container "container_1". Please ensure that the object '
        "located at the URL is a valid tar.gz archive."
    )


def alarmed(alarm: str) -> HostingFailed:
    return HostingFailed(f"One or more configured alarms have gone into ALARM state: {alarm}.")


def overdue(seconds: float) -> HostingFailed:
    return HostingFailed(
        f"The update of the endpoint did not complete within MaximumExecutionTimeoutInSeconds, {seconds:.0f} seconds."
    )
