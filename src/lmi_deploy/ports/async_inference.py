"""Requests that are queued, and answered later."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.async_requests import AsyncLimits, AsyncResult, AsyncTicket
from lmi_deploy.domain.inference_http import HttpRequest


class AsyncInference(Protocol):
    """Of one deployment."""

    def submit(self, request: HttpRequest, limits: AsyncLimits, *, prompt: str = "") -> AsyncTicket:
        """Enqueue it. What the ticket says can be fetched by its id from any machine, with the prompt."""

    def ticket(self, inference_id: str) -> AsyncTicket:
        """UsageRefused, NotFound if it names no request of this deployment."""

    def result(self, ticket: AsyncTicket) -> AsyncResult: ...

    def has_instances(self) -> bool:
        """Whether any instance may answer now; true as well if that is unknown."""
