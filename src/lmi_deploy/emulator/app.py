"""The one address: every service of AWS behind it, the clock and the faults beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeGuard

from aiohttp import web

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.middleware import add_fault_routes, deliver, faulty
from lmi_deploy.emulator.hosting.network_access import PATH as CREDENTIALS_PATH
from lmi_deploy.emulator.iam.authentication import SIGNATURE, Authentication, refused_request
from lmi_deploy.emulator.iam.authorizer import AccessDenied, Authorizer
from lmi_deploy.emulator.iam.moto_permissions import SignedRequest, rights
from lmi_deploy.emulator.iam.operation_permissions import invoking
from lmi_deploy.emulator.iam.policy_quotas import policy_refusal
from lmi_deploy.emulator.iam.policy_simulation import OPERATION, read_form, simulated
from lmi_deploy.emulator.operation_table import respond
from lmi_deploy.emulator.runtime.async_invocation import Queue
from lmi_deploy.emulator.runtime.invocation import RuntimeApi
from lmi_deploy.emulator.runtime.invocation_request import is_invocation, read_invocation
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT
from lmi_deploy.emulator.services import service_quotas
from lmi_deploy.emulator.services.image_registry import DockerRegistryApi
from lmi_deploy.emulator.services.moto import SERVICES, Moto
from lmi_deploy.emulator.services.pricing import PUBLIC, public_file
from lmi_deploy.emulator.wire.errors import ApiError, xml_error
from lmi_deploy.emulator.wire.operation_dispatch import called, refusal
from lmi_deploy.emulator.wire.service_models import service_model
from lmi_deploy.emulator.wire.signature import Signature

CLOCK_PATH: Final = "/_clock"
_YEAR: Final = 366 * 86_400
RIGHTS_PATH: Final = "/_rights"
QUOTAS_PATH: Final = "/_quotas/{region}"
STATUS_PATH: Final = "/_endpoints/{region}/{name}"


@dataclass(slots=True)
class EmulatorApp:
    context: EmulatorContext
    runtime: RuntimeApi
    queue: Queue
    moto: Moto
    guard: Authorizer | None
    authentication: Authentication
    sync_clock: Callable[[], None]
    images: DockerRegistryApi

    def app(self) -> web.Application:
        middlewares = [
            self.images.middleware(),
            self.authentication.middleware(),
            deliver,
            faulty(self.context.faults),
        ]
        app = web.Application(middlewares=middlewares, client_max_size=6 * 1024**3)
        add_fault_routes(app, self.context.faults)
        app.router.add_get(CLOCK_PATH, self.show_clock)
        app.router.add_post(CLOCK_PATH, self.turn_clock)
        app.router.add_get(RIGHTS_PATH, self.show_rights)
        app.router.add_post(STATUS_PATH, self.force_status)
        app.router.add_post(QUOTAS_PATH, self.set_quotas)
        app.router.add_get(CREDENTIALS_PATH, self.context.keys.serve)
        app.router.add_get(PUBLIC + "{path:.+}", self.serve_prices)
        app.router.add_route("*", "/{path:.*}", self.serve)
        return app

    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            await self.authentication.require_body(request)
        except ApiError as error:
            return await refused_request(request, error)
        call = await called(request)
        if call is not None:
            return await respond(self.context, self.guard, request, call, request[SIGNATURE])
        try:
            if is_invocation(request.path) and request[SIGNATURE].service == "sagemaker":
                return await self.invoke(request)
            return await self.external_service(request)
        except ApiError as error:
            response = refusal(error)
            response.content_type = "application/json"
            return response

    async def serve_prices(self, request: web.Request) -> web.Response:
        return public_file(self.context, request.match_info["path"])

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        signature: Signature = request[SIGNATURE]
        requested = await read_invocation(request)
        if self.guard is not None:
            component = requested.params.get("InferenceComponentName", "")
            needed = invoking(
                self.context, signature.region, requested.operation, requested.endpoint, component
            )
            self.guard.require(signature.key, [*needed])
        if requested.operation == "InvokeEndpointWithResponseStream":
            return await self.runtime.stream(signature.region, requested, request)
        if requested.operation == "InvokeEndpoint":
            return await self.runtime.invoke(signature.region, requested)
        return self.queue.invoke(signature.region, requested)

    async def external_service(self, request: web.Request) -> web.StreamResponse:
        """The services of moto: by the service that the request is signed for."""
        signature: Signature = request[SIGNATURE]
        if signature.service not in SERVICES:
            if "X-Amz-Target" in request.headers:
                raise ApiError("UnknownOperationException", "")
            raise ApiError(
                "NotImplemented",
                f"The emulator does not serve {signature.service}; `lmi docs emulator` lists what it serves.",
                status=501,
            )
        if self.guard is not None:
            denied = await self._denied(self.guard, request, signature)
            if denied is not None:
                return denied
        if signature.service == "iam":
            form = read_form(await request.read())
            if form.get("Action") == OPERATION:
                status, body = simulated(self.context.account, form)
                return web.Response(status=status, body=body, content_type="text/xml")
            code, message = policy_refusal(self.context.account, form)
            if code:
                body = xml_error("iam", message, code=code)
                return web.Response(status=409, body=body, content_type="text/xml")
        if request.headers.get("X-Amz-Target", "").endswith(".GetAuthorizationToken"):
            return self._registry_login(signature)
        response = await self.moto.respond(request, signature.service)
        if signature.service == "iam":
            self.context.roles.note()
        return response

    def _registry_login(self, signature: Signature) -> web.Response:
        if not self.images.program:
            why = "This emulator has no image registry: start it with --registry URL (`lmi docs emulator`)."
            raise ApiError("NotImplemented", why, status=501)
        body = json.dumps(self.images.authorization(signature.key, signature.region))
        return web.Response(text=body, content_type="application/x-amz-json-1.1")

    async def _denied(
        self, guard: Authorizer, request: web.Request, signature: Signature
    ) -> web.Response | None:
        sent = SignedRequest(
            service=signature.service,
            region=signature.region,
            account=self.context.account,
            method=request.method,
            path=request.raw_path.partition("?")[0],
            query=request.query,
            headers=request.headers,
            body=await request.read(),
        )
        try:
            guard.require(signature.key, rights(sent))
        except AccessDenied as error:
            if "X-Amz-Target" in request.headers:
                raise
            body = xml_error(signature.service, error.message)
            return web.Response(status=403, body=body, content_type="application/xml")
        return None

    async def show_clock(self, request: web.Request) -> web.Response:
        clock = self.context.clock
        return web.json_response({"now": round(clock.now(), 3), "speed": clock.speed})

    async def turn_clock(self, request: web.Request) -> web.Response:
        requested = _object(await request.text())
        off = requested.get("off")
        if isinstance(off, int | float) and abs(off) < _YEAR:
            self.authentication.off = timedelta(seconds=off)
            return await self.show_clock(request)
        seconds = requested.get("advance")
        if not _is_amount(seconds):
            return _bad('must be {"advance": seconds}, with seconds of at least 0: the clock cannot go back')
        self.context.clock.advance(seconds)
        self.sync_clock()
        return await self.show_clock(request)

    async def show_rights(self, request: web.Request) -> web.Response:
        """Which permissions each principal has used, if IAM is enforced."""
        return web.json_response(self.guard.used if self.guard is not None else {})

    async def force_status(self, request: web.Request) -> web.Response:
        """Set an endpoint to a status that it does not reach by itself (OutOfService, SystemUpdating)."""
        requested = _object(await request.text())
        known = service_model("sagemaker").shape_for("EndpointStatus").enum
        if requested.get("status") not in known:
            return _bad(f"status must be one of {', '.join(known)}")
        table = self.context.table(ENDPOINT.table, request.match_info["region"])
        row = table.get(request.match_info["name"])
        if row is None:
            return _bad("no such endpoint in this region")
        row.update(
            status=requested["status"], failure=requested.get("reason"), modified=self.context.clock.now()
        )
        table.put(request.match_info["name"], row)
        return web.json_response({"status": row["status"]})

    async def set_quotas(self, request: web.Request) -> web.Response:
        """How many instances of a type the endpoints of a region may have: {"ml.g5.xlarge": 0}"""
        requested = _object(await request.text())
        if not all(_is_amount(value) for value in requested.values()):
            return _bad('must be {"ml.g5.xlarge": count, ...}')
        for kind, value in requested.items():
            self.context.table(service_quotas.TABLE, request.match_info["region"]).put(kind, {"value": value})
        return web.json_response(requested)


def _is_amount(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _bad(why: str) -> web.Response:
    return web.json_response({"error": why}, status=400)
