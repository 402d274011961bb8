"""Credentials that are absent, incomplete or expired, and the remedy for each. Secrets are never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lmi_deploy.errors import AccessError, LmiError, NoCredentials, UsageRefused

LOG_IN_AGAIN: Final = "run the same command again: completed work is kept"
_LOG_IN: Final = f"log in again (`aws sso login`, or new keys), then {LOG_IN_AGAIN}"
ABSENT: Final = (
    "set AWS_PROFILE, log in with `aws sso login`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
EXPIRED: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "TokenRefreshRequired",
        "TokenRefreshRequiredException",
    }
)
"""Codes that a fresh set of credentials may cure."""
_REFUSED: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": "AWS does not know the access key",
    "InvalidToken": "the session token is not valid",
    "InvalidClientTokenId": "AWS does not know the access key or the session token",
    "UnrecognizedClientException": "AWS does not know the access key or the session token, or the account has not "
    "enabled the region",
    "InvalidSignatureException": "the signature does not match: the secret key does not belong to the access key",
    "MissingAuthenticationToken": "the request had none",
    "MissingAuthenticationTokenException": "the request had none",
    "OptInRequired": "the account may not use the service, or has not enabled the region",
    "SignatureDoesNotMatch": "the signature does not match: the secret key does not belong to the access key",
    "AuthFailure": "the credentials were not accepted",
}
_LOCAL: Final[Mapping[str, tuple[type[LmiError], str]]] = {
    "NoCredentialsError": (NoCredentials, ABSENT),
    "PartialCredentialsError": (AccessError, ABSENT),
    "CredentialRetrievalError": (AccessError, _LOG_IN),
    "SSOTokenLoadError": (AccessError, _LOG_IN),
    "SSOError": (AccessError, _LOG_IN),
    "UnauthorizedSSOTokenError": (AccessError, _LOG_IN),
    "TokenRetrievalError": (AccessError, _LOG_IN),
    "LoginError": (AccessError, _LOG_IN),
    "LoginRefreshRequired": (AccessError, _LOG_IN),
    "MetadataRetrievalError": (AccessError, ABSENT),
    "ProfileNotFound": (UsageRefused, "list the profiles with `aws configure list-profiles`"),
    "ConfigParseError": (UsageRefused, "repair ~/.aws/config or the file of AWS_CONFIG_FILE"),
    "ConfigNotFound": (UsageRefused, "set AWS_CONFIG_FILE to an existing file"),
    "NoRegionError": (
        UsageRefused,
        "set endpoint.region in the recipe, AWS_REGION, or `region` in the profile",
    ),
    "InvalidRegionError": (UsageRefused, "write a region such as us-east-1"),
}


def credential_error(exc: Exception) -> LmiError | None:
    """The error for what botocore raised before it sent anything; None if it is about something else."""
    for kind in type(exc).__mro__:
        if kind.__name__ in _LOCAL:
            error, hint = _LOCAL[kind.__name__]
            why = " ".join(str(exc).split())[:300].rstrip(".")
            return error(f"AWS credentials: {why[:1].lower()}{why[1:]}", hint=hint)
    return None


def refused_credentials(code: str) -> AccessError | None:
    """The error for credentials that a service refused; None if `code` is about something else."""
    if code in EXPIRED:
        return expired_credentials()
    if code in _REFUSED:
        return AccessError(f"AWS credentials: {_REFUSED[code]}", hint=f"{ABSENT}; then {LOG_IN_AGAIN}")
    return None


def expired_credentials() -> AccessError:
    return AccessError("AWS credentials: they have expired", hint=_LOG_IN)


def is_still_expired(exc: Exception) -> bool:
    """botocore's "Credentials were refreshed, but the refreshed credentials are still expired": no exception class."""
    return isinstance(exc, RuntimeError) and "still expired" in str(exc)
