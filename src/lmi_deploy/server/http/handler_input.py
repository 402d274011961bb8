"""An HTTP request as the handler sees it: properties from headers, content from query, form and body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lmi_deploy.server import error_responses
from lmi_deploy.server.http import form_parsing
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.workers.djl_protocol import Entry, Pair, alphabetical

ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"


@dataclass(slots=True)
class ModelInput:
    """The input of the worker, and the requested path."""

    path: str
    content: list[Entry] = field(repr=False)
    named: dict[str, Pair]
    query: Sequence[Entry] = ()

    def value(self, name: str) -> str | None:
        """A property by its name in any letter case."""
        found = self.named.get(name.lower())
        return found[1] if found else None

    def stated(self, name: str) -> str | None:
        """In the query, else in a header."""
        found = next((blob.decode("utf-8", "replace") for key, blob in self.query if key == name), None)
        return found or self.value(name)

    def entry(self, name: str) -> str | None:
        """The text of the first content entry of that name."""
        return next((blob.decode("utf-8", "replace") for key, blob in self.content if key == name), None)

    def set(self, name: str, value: str) -> None:
        """The last value wins, under the first letter case."""
        lowered = name.lower()
        self.named[lowered] = (self.named[lowered][0] if lowered in self.named else name, value)

    def properties(self) -> list[Pair]:
        return alphabetical(list(self.named.values()))


def read_input(request: ReceivedRequest, request_id: str, *, named: bool = False) -> ModelInput:
    """`ErrorReply` if the real server refuses the request before any worker sees it."""
    path, entries = form_parsing.split_target(request.target)
    requested = ModelInput(path, list(entries), {}, entries)
    for name, value in request.headers:
        if name.lower() == ATTRIBUTES:
            for attribute in value.split(";"):
                key, equals, text = attribute.partition("=")
                if equals:
                    requested.set(key.strip(), text.strip())
        elif not (name.lower() == "transfer-encoding" and not request.sized):
            requested.set(name, value)
    form = form_parsing.form_entries(request.header("content-type"), request.body)
    if "handler" in requested.named and not named:
        message = "The handler can't be overridden in a request"
        raise error_responses.ErrorReply(400, "BadRequestException", message, reason=message)
    if not request.sized:
        requested.set("content-length", str(len(request.body)))
    requested.set("requestId", request_id)
    requested.content += form if form is not None else [("data", request.body)]
    return requested
