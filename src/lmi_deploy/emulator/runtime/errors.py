"""The errors that a caller gets when the container's response was not successful."""

from __future__ import annotations

from lmi_deploy.emulator.wire.errors import ApiError

TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency "
    "metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)


def not_found(endpoint: str, account: str) -> ApiError:
    return ApiError("ValidationError", f"Endpoint {endpoint} of account {account} not found.")


def no_variant(variant: str, endpoint: str) -> ApiError:
    return ApiError("ValidationError", f"Variant {variant} not found for Endpoint {endpoint}.")


def component_required() -> ApiError:
    return ApiError(
        "ValidationError",
        "Inference Component Name header is required for endpoints to which you plan to deploy inference components. "
        "Please include Inference Component Name header or consider using SageMaker models.",
    )


def component_not_allowed() -> ApiError:
    return ApiError(
        "ValidationError",
        "Inference Component Name header is not allowed for endpoints to which you dont plan to deploy inference "
        "components. Please remove the Inference Component Name header and try again.",
    )


def no_component(component: str, endpoint: str) -> ApiError:
    return ApiError("ValidationError", f"Inference Component {component} not found for Endpoint {endpoint}.")


def no_copy() -> ApiError:
    return ApiError(
        "ValidationError",
        "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress (if "
        "configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API.",
    )


def no_response(endpoint: str) -> str:
    return (
        f"Amazon SageMaker could not get a response from the {endpoint} endpoint. This can occur when CPU or "
        "memory utilization is high. To check your utilization, see Amazon CloudWatch. To fix this problem, "
        "use an instance type with more CPU capacity or memory."
    )


def model_error(status: int, text: str, *, region: str, endpoint: str, account: str) -> ApiError:
    """HTTP 424, with the container's status and words inside."""
    side = "client" if 400 <= status < 500 else "server"
    group = f"/aws/sagemaker/Endpoints/{endpoint}"
    console = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
    message = (
        f'Received {side} error ({status}) from primary with message "{text}". '
        f"See {console}#logEventViewer:group={group} in account {account} for more information."
    )
    fields = {
        "Message": message,
        "OriginalStatusCode": status,
        "OriginalMessage": text,
        "LogStreamArn": f"arn:aws:logs:{region}:{account}:log-group:{group}",
    }
    return ApiError("ModelError", message, status=424, fields=fields)
