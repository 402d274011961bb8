"""moto in this process: IAM, STS, S3 and the other services that it emulates well enough, called as a WSGI
application.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from aiohttp import web

from lmi_deploy.domain.default_bucket import GLOBAL_NAMES_ONLY
from lmi_deploy.emulator.services.moto_folder import MotoFolder
from lmi_deploy.emulator.wire.errors import ApiError, xml_error

SERVICES: Final = frozenset(
    ("iam", "sts", "s3", "s3express", "secretsmanager", "ecr", "ec2", "kms", "ssm", "sns", "sqs")
)
_HOP: Final = frozenset(("connection", "transfer-encoding", "keep-alive", "date", "server", "content-length"))
READING: Final = ("GET", "HEAD", "OPTIONS")
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Moto:
    def __init__(self, account: str, folder: Path | None) -> None:
        """`folder` stores its state across restarts."""
        from moto.core.common_models import BaseModel
        from moto.core.config import default_user_config
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from moto.s3.models import FakeBucket
        from moto.sns.models import Topic

        # moto ignores the conditions of a bucket's policy: "deny requests without TLS" would deny everything.
        FakeBucket.get_permission = _unjudged  # type: ignore[assignment]
        # moto keeps every instance of every model for its dashboard page: one for each object that was ever stored.
        BaseModel.__new__ = lambda kind, *_, **__: object.__new__(kind)  # type: ignore[method-assign]
        # moto confirms every subscription, and returns that there is none.
        Topic.subscriptions_confimed = property(_subscriptions, lambda *_: None)  # type: ignore[assignment]
        default_user_config["iam"]["load_aws_managed_policies"] = True
        dispatcher = DomainDispatcherApplication(create_backend_app)
        # moto looks through its own folder for every request: 230 calls of the file system, a third of its time.
        dispatcher.get_backend_for_host = cache(dispatcher.get_backend_for_host)  # type: ignore[method-assign]
        self._app: WsgiApp = dispatcher
        self._account = account
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="moto")
        self._folder = MotoFolder(folder, account) if folder is not None else None
        if self._folder is not None:
            self._folder.load()

    async def respond(self, request: web.Request, service: str) -> web.StreamResponse:
        """The changes are on disk, if a folder was given, before the response is sent."""
        if _lacks_namespace(request):
            message = "Account-regional namespaces are not available in this region."
            return web.Response(status=400, body=xml_error("s3", message, code="InvalidRequest"))
        body = await request.read()
        environ = _environ(request, body)
        # Else moto looks the key up in the IAM of every partition, and reads AWS's 1,500 policies for each: a second.
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account
        status, headers, content = await asyncio.get_running_loop().run_in_executor(
            self._pool, self._call, environ, service
        )
        response = web.Response(status=status, body=content)
        response.headers.pop("Content-Type", None)
        for name, value in headers:
            if name.lower() not in _HOP:
                response.headers.add(name, value)
        if request.method == "HEAD":
            # The length of the body of a GET, which is not sent.
            length = next((value for name, value in headers if name.lower() == "content-length"), "0")
            response.headers["Content-Length"] = length
        return response

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, environ: dict[str, Any], service: str) -> tuple[int, list[tuple[str, str]], bytes]:
        head: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> None:
            head[:] = [int(status.split(" ", 1)[0]), headers]

        try:
            stored = self._folder if environ["REQUEST_METHOD"] not in READING else None
            with stored.keeping(service) if stored is not None else nullcontext():
                content = b"".join(self._app(environ, start_response))
        except NotImplementedError as exc:
            raise ApiError("NotImplemented", f"moto does not serve this: {exc}", status=501) from exc
        return head[0], head[1], content


def _lacks_namespace(request: web.Request) -> bool:
    """moto has account-regional names in every region. What AWS answers in these two is not documented."""
    regional = request.headers.get("x-amz-bucket-namespace") == "account-regional"
    return regional and request.path.rstrip("/").endswith(tuple(f"-{name}-an" for name in GLOBAL_NAMES_ONLY))


def _subscriptions(topic: Any) -> int:
    return sum(each.topic is topic for each in topic.sns_backend.subscriptions.values())


def _unjudged(bucket: object, action: str, resource: str) -> Any:
    from moto.iam.access_control import PermissionResult

    return PermissionResult.NEUTRAL


def _environ(request: web.Request, body: bytes) -> dict[str, Any]:
    raw_path, _, query = request.raw_path.partition("?")
    return {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(raw_path).decode("latin-1"),
        "RAW_URI": request.raw_path,
        "REQUEST_URI": request.raw_path,
        "QUERY_STRING": query,
        "SERVER_NAME": request.url.host or "127.0.0.1",
        "SERVER_PORT": str(request.url.port or 80),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": request.remote or "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "CONTENT_LENGTH": str(len(body)),
        **_header_entries(request.headers),
    }


def _header_entries(headers: Mapping[str, str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        if key in ("CONTENT_LENGTH", "TRANSFER_ENCODING"):
            continue
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        entries[key] = f"{entries[key]},{value}" if key in entries else value
    return entries
