"""One request to a model server on this machine, with a streamed response. Standard library only."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.errors import AccessError, DeployFailed, UsageRefused

INVOCATIONS = "/invocations"
MOST_BYTES = 67_108_864
"""`max_request_size` of DJLServing, which answers 413 without a body to more."""
_CHUNK = 65536


def exchange(
    host: str, port: int, request: HttpRequest, *, name: str, timeout: float
) -> Iterator[ResponseHead | bytes]:
    """The head, then the body in the pieces in which it arrives. `timeout` limits each wait for data, in seconds;
    `name` is the deployment's, for error messages.
    """
    if len(request.body) > MOST_BYTES:
        raise UsageRefused(
            f"{name}: the request has {len(request.body):,} bytes; the server accepts at most {MOST_BYTES:,}",
            hint="send a smaller request (an image takes 4/3 of its file's size)",
        )
    link = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        response = _send(link, request)
        yield ResponseHead(
            status=response.status, reason=response.reason, headers=tuple(response.getheaders())
        )
        yield from _body(response)
    except ConnectionRefusedError:
        raise AccessError(
            f"no server at {host}:{port}",
            hint=f"run `lmi status {name}` for the reason, `lmi up` to start it again",
        ) from None
    except TimeoutError:
        raise DeployFailed(
            f"{host}:{port} sent no data for {timeout:g} s (the limit)",
            hint=f"check `lmi logs {name}`, or wait longer with `lmi invoke --timeout SECONDS`",
        ) from None
    except (http.client.HTTPException, ConnectionError) as cut:
        raise DeployFailed(
            f"{host}:{port} ended the response early: {type(cut).__name__}",
            hint=f"see `lmi logs {name}` for the worker's last lines",
        ) from None
    finally:
        link.close()


def _send(link: http.client.HTTPConnection, request: HttpRequest) -> http.client.HTTPResponse:
    link.request("POST", INVOCATIONS, body=request.body, headers=dict(request.headers))
    return link.getresponse()


def _body(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read1(_CHUNK):
        yield chunk
