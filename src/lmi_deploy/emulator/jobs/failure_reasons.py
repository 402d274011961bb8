"""Why a job failed, in the words of SageMaker's FailureReason."""

from __future__ import annotations

from typing import Final

from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed

LOST: Final = "InternalServerError: We encountered an internal error. Please try again."


def exited(message: str, code: int) -> HostingFailed:
    """`message` is the content of the container's /opt/ml/output/message; most containers write none."""
    return HostingFailed(f"AlgorithmError: {message}, exit code: {code}")


def no_input(uri: str, role: str, region: str, bucket: str) -> HostingFailed:
    return HostingFailed(
        f'ClientError: No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that '
        f"the bucket exists in the selected region ({region}), that objects exist under that S3 prefix, and that "
        f'the role "{role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
    )


def denied(uri: str) -> HostingFailed:
    return HostingFailed(f"ClientError: Cannot download {uri}: Access Denied (403)")


def not_stored(uri: str) -> HostingFailed:
    return HostingFailed(f"ClientError: Cannot upload to {uri}: Access Denied (403)")


def no_grant(role: str, key: str) -> HostingFailed:
    return HostingFailed(
        f"ClientError: The role {role} is not authorized to perform: kms:CreateGrant on the key {key} of the volumes."
    )


def no_text() -> HostingFailed:
    return HostingFailed("ClientError: The contents of /opt/ml/output/message are not UTF-8.")


def no_entrypoint(image: str) -> HostingFailed:
    return HostingFailed(
        f"The emulator does not pull images: the job must name its ContainerEntrypoint, which {image} would have."
    )
