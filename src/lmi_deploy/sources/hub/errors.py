"""The Hub's refusals as errors of lmi: what, why, and the address where to act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.errors import AccessError, LmiError, NotFound
from lmi_deploy.sources.download_retry import HashMismatch, RetryableError, retry_after
from lmi_deploy.sources.hub.hub_settings import HubSettings

RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class HubResource:
    """The requested resource, in the user's terms."""

    model_id: str
    revision: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class HubErrorResponse:
    """A response of 400 or more; `is_other_host` if a redirect led away from the Hub itself."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_other_host: bool = False

    @property
    def code(self) -> str:
        return self.headers.get("X-Error-Code", "")

    @property
    def text(self) -> str:
        """The server's own words, one line of them."""
        words = self.headers.get("X-Error-Message") or _error_in(self.body)
        return " ".join(words.split())[:200]


def _error_in(body: bytes) -> str:
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return str(found.get("error", "")) if isinstance(found, dict) else ""


def translate(
    refusal: HubErrorResponse, subject: HubResource, settings: HubSettings
) -> LmiError | RetryableError:
    """The error to raise; RetryableError if another attempt may help."""
    if refusal.is_other_host and refusal.status in (401, 403, 404):
        # A signed address that has expired, or that a store does not know yet: the Hub gives a new one.
        return RetryableError(f"the signed address answered {refusal.status}")
    if refusal.status in RETRIED:
        return _overloaded(refusal, settings)
    if refusal.status == 416:
        return HashMismatch("the Hub does not have this range")
    page = f"{settings.endpoint}/{subject.model_id}"
    if refusal.code == "GatedRepo":
        return _gated(subject, settings, page)
    if refusal.code == "RevisionNotFound":
        return NotFound(
            f"{subject.model_id}: no such revision: {subject.revision!r}",
            hint=f"choose a branch, tag or commit from {page}/tree/main",
        )
    if refusal.code == "EntryNotFound":
        return NotFound(
            f"{subject.model_id}: no file {subject.path!r} at revision {subject.revision}",
            hint=f"choose a file from {page}/tree/{subject.revision}",
        )
    if refusal.status == 401 and refusal.code != "RepoNotFound" and settings.token is not None:
        return _bad_token(refusal, settings)
    if refusal.code == "RepoNotFound" or refusal.status in (401, 404):
        return _missing(refusal, subject, settings)
    return _other(refusal, subject, page)


def _overloaded(refusal: HubErrorResponse, settings: HubSettings) -> RetryableError:
    if refusal.status == 429:
        advice = "" if settings.token else " (a token raises the limit: set HF_TOKEN)"
        return RetryableError(f"rate limit of the Hub{advice}", wait=retry_after(refusal.headers))
    return RetryableError(f"the Hub answered {refusal.status}", wait=retry_after(refusal.headers))


def _gated(subject: HubResource, settings: HubSettings, page: str) -> AccessError:
    if settings.token is None:
        return AccessError(
            f"{subject.model_id}: gated, and there is no token",
            hint=f"accept its conditions at {page}, then `hf auth login`, or set HF_TOKEN to a token from"
            f" {settings.endpoint}/settings/tokens",
        )
    return AccessError(
        f"{subject.model_id}: gated, and the account of the token in {settings.token_from} has no access",
        hint=f"accept its conditions, or check the state of your request, at {page}",
    )


def _bad_token(refusal: HubErrorResponse, settings: HubSettings) -> AccessError:
    return AccessError(
        f"{settings.endpoint} refuses the token in {settings.token_from}: {refusal.text or refusal.status}",
        hint=f"create a new token at {settings.endpoint}/settings/tokens, or unset it: a public model needs none",
    )


def _missing(refusal: HubErrorResponse, subject: HubResource, settings: HubSettings) -> NotFound:
    page = f"{settings.endpoint}/{subject.model_id}"
    if settings.token is None:
        return NotFound(
            f"{subject.model_id}: no such model, or a private one, and there is no token ({refusal.status})",
            hint=f"check the spelling at {page}; for a private model `hf auth login`, or set HF_TOKEN",
        )
    return NotFound(
        f"{subject.model_id}: no such model, or the token in {settings.token_from} has no access",
        hint=f"check the spelling at {page}, signed in as the token's account",
    )


def _other(refusal: HubErrorResponse, subject: HubResource, page: str) -> AccessError:
    why = f": {refusal.text}" if refusal.text else ""
    return AccessError(f"{subject.model_id}: the Hub answered {refusal.status}{why}", hint=f"see {page}")
