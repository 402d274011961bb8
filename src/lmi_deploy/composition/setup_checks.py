"""The checks of `lmi doctor`, connected to this machine, the account and the Hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lmi_deploy.composition.user_folders import cache_folder, state_folder
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.domain.setup_findings import SetupFinding, absent
from lmi_deploy.errors import NoCredentials
from lmi_deploy.errors.url_redaction import is_http_address, mask_urls
from lmi_deploy.host.deadline import within
from lmi_deploy.workflows.doctor import SetupCheck

if TYPE_CHECKING:
    from lmi_deploy.domain.recipe_keys import Recipe
    from lmi_deploy.ports.cloud import Cloud
    from lmi_deploy.sources.hub.hub_settings import HubSettings
    from lmi_deploy.workflows.dependencies import Dependencies

SECONDS: Final = 15.0
"""For one check that uses the network."""
_LMI, _MACHINE, _AWS, _HUB = "lmi", "this machine", "AWS", "Hugging Face Hub"
_SOON: Final = 3600.0
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_Findings = Iterable[SetupFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupRequest:
    """`recipe`: only what it needs; None: everything that lmi can use."""

    recipe: Recipe | None
    offline: bool

    @property
    def needs_aws(self) -> bool:
        recipe = self.recipe
        return recipe is None or recipe.endpoint.target == "sagemaker" or recipe.model_id.startswith("s3://")

    @property
    def needs_hub(self) -> bool:
        model = self.recipe.model_id if self.recipe else ""
        return not is_folder(model) and not model.startswith("s3://")

    @property
    def deploys_here(self) -> bool:
        return self.recipe is None or self.recipe.endpoint.target == "local"

    @property
    def builds_image(self) -> bool:
        return self.recipe is not None and self.recipe.container.build is not None

    @property
    def extras(self) -> dict[str, str]:
        """Those that the recipe needs, each with its reason."""
        if self.recipe is None:
            return {}
        needed = {"local": "which target local needs"} if self.deploys_here else {}
        if self.recipe.weights.engine == "obstore":
            needed["obstore"] = "which weights.engine: obstore needs"
        return needed


def setup_checks(
    asked: SetupRequest, deps: Dependencies, environ: Mapping[str, str]
) -> tuple[SetupCheck, ...]:
    """In the order in which they are shown; what works without the network first."""
    checks = [*_checks_of_lmi(asked), *_checks_of_machine(asked, environ)]
    if asked.needs_aws:
        checks += _checks_of_aws(asked, deps, environ)
    if asked.needs_hub:
        checks += _checks_of_hub(asked, deps, environ)
    return tuple(checks)


def _checks_of_lmi(asked: SetupRequest) -> Iterator[SetupCheck]:
    from lmi_deploy.host.setup_checks import extra_findings, python_findings, version_findings

    yield SetupCheck(area=_LMI, name="Python", run=python_findings)
    yield SetupCheck(area=_LMI, name="versions", run=version_findings)
    yield SetupCheck(area=_LMI, name="extras", run=lambda: extra_findings(asked.extras))


def _checks_of_machine(asked: SetupRequest, environ: Mapping[str, str]) -> Iterator[SetupCheck]:
    from lmi_deploy.host.setup_checks import disk_findings
    from lmi_deploy.sources.hub.hub_settings import HubSettings

    folders = {"state": state_folder(environ), "cache": cache_folder(environ)}

    def disks() -> _Findings:
        more = {"models": HubSettings.read(environ, Path.home()).cache} if asked.needs_hub else {}
        return disk_findings({**folders, **more})

    yield SetupCheck(area=_MACHINE, name="disk", run=disks)
    yield SetupCheck(area=_MACHINE, name="addresses", run=lambda: _addresses(asked, environ))
    if asked.deploys_here:
        yield SetupCheck(area=_MACHINE, name="devices", run=lambda: _devices(environ))
        yield SetupCheck(area=_MACHINE, name="DJLServing", run=lambda: _djl_serving(asked, environ))
    if asked.deploys_here or asked.builds_image:
        yield SetupCheck(area=_MACHINE, name="containers", run=lambda: _containers(asked, environ))


def _checks_of_aws(
    asked: SetupRequest, deps: Dependencies, environ: Mapping[str, str]
) -> Iterator[SetupCheck]:
    from lmi_deploy.targets.sagemaker import setup_checks as account

    recipe = asked.recipe
    region = (recipe.endpoint.region if recipe else None) or ""

    def online(name: str, check: Callable[[Cloud], _Findings], *, needs: str = "identity") -> SetupCheck:
        what = f"{_AWS}, {name}"
        run = lambda: within(SECONDS, what, lambda: tuple(check(deps.cloud(region))))  # noqa: E731
        return SetupCheck(area=_AWS, name=name, run=run, online=True, needs=needs)

    yield SetupCheck(area=_AWS, name="credentials", run=lambda: _credentials(asked))
    yield SetupCheck(area=_AWS, name="region", run=lambda: account.region_check(region or _region(environ)))
    yield online("identity", _identity, needs="credentials")
    if recipe is not None and recipe.endpoint.target != "sagemaker":
        return
    yield online("role", lambda cloud: account.role_check(cloud, recipe))
    yield online("bucket", lambda cloud: account.bucket_check(cloud, recipe))
    yield online("quota", lambda cloud: account.quota_check(cloud, recipe))
    if recipe is not None:
        if recipe.weights.token_secret:
            yield online("secret", lambda cloud: account.secret_check(cloud, recipe))
        yield online("permissions", lambda cloud: _permissions(cloud, recipe, deps), needs="role")


def _checks_of_hub(
    asked: SetupRequest, deps: Dependencies, environ: Mapping[str, str]
) -> Iterator[SetupCheck]:
    def run() -> _Findings:
        from lmi_deploy.sources.hub.hub_settings import HubSettings

        return tuple(_token(HubSettings.read(environ, Path.home()), offline=asked.offline))

    recipe = asked.recipe
    yield SetupCheck(area=_HUB, name="token", run=run)
    if recipe is not None:
        check = lambda: within(SECONDS, f"{_HUB}, model", lambda: _model(recipe, deps))  # noqa: E731
        yield SetupCheck(area=_HUB, name="model", run=check, online=True)


def _addresses(asked: SetupRequest, environ: Mapping[str, str]) -> Iterator[SetupFinding]:
    """Variables that send requests elsewhere: forgotten ones are hard to find."""
    named = sorted(
        name
        for name in environ
        if environ[name]
        and (
            (name.startswith("AWS_ENDPOINT_URL") and asked.needs_aws)
            or (name == "HF_ENDPOINT" and asked.needs_hub)
        )
    )
    for name in named:
        if is_http_address(environ[name]):
            vendor = "the public Hub" if name == "HF_ENDPOINT" else "AWS"
            text = f"{name}: requests go to {mask_urls(environ[name])}, not to {vendor}"
            yield SetupFinding("warning", text, f"unset {name}, unless this is intended")
        else:
            # Not shown: it may contain a password.
            yield SetupFinding(
                "broken", f"{name}: not an address: write http:// or https://, then a host", f"unset {name}"
            )
    for name in _PROXIES:
        if environ.get(name):
            yield SetupFinding("ok", f"{name}: requests go through {mask_urls(environ[name])}")
    if not named:
        yield SetupFinding("ok", "requests go to the vendors' own addresses")


def _devices(environ: Mapping[str, str]) -> Iterator[SetupFinding]:
    from lmi_deploy.domain.number_text import counted, gib_text
    from lmi_deploy.host.machine import machine

    found = machine(environ)
    text = f"{counted(found.cores, 'core')}, {gib_text(found.memory)} of memory"
    devices = ", ".join(name for name, _ in found.accelerators)
    yield SetupFinding("ok", f"{text}, {devices or 'no NVIDIA GPU (models run on the CPU)'}")


def _djl_serving(asked: SetupRequest, environ: Mapping[str, str]) -> Iterator[SetupFinding]:
    from lmi_deploy.host.setup_checks import java_findings
    from lmi_deploy.runtimes.djl_serving import find_installation

    found = find_installation(environ)
    required = asked.recipe is not None and asked.recipe.endpoint.runtime == "djl-serving"
    if not isinstance(found, str):
        yield SetupFinding("ok", f"DJLServing: {found.program}")
    elif required or environ.get("DJL_SERVING_HOME"):
        yield absent(found, "set DJL_SERVING_HOME and JAVA_HOME, or use runtime: embedded", required=True)
    else:
        yield SetupFinding("ok", "not installed (only runtime: djl-serving needs it)")
    yield from java_findings(environ)


def _containers(asked: SetupRequest, environ: Mapping[str, str]) -> Iterator[SetupFinding]:
    from lmi_deploy.composition.local import server_environment
    from lmi_deploy.host.setup_checks import container_findings
    from lmi_deploy.runtimes.container.container_cli import CHOICE, find_engine

    recipe, found = asked.recipe, find_engine(environ)
    required = asked.builds_image or (recipe is not None and recipe.endpoint.runtime == "container")
    if not isinstance(found, str):
        yield from container_findings(
            found.kind, found.program, server_environment(environ), required=required
        )
    elif required or environ.get(CHOICE):
        yield absent(found, "install docker, podman or finch", required=True)
    else:
        yield SetupFinding("ok", f"{found} (only runtime: container and container.build need it)")


def _credentials(asked: SetupRequest) -> Iterator[SetupFinding]:
    from lmi_deploy.aws.credential_source import credential_source

    offline = asked.offline
    try:
        source = within(SECONDS, f"{_AWS}, credentials", lambda: credential_source(offline=offline))
    except NoCredentials as error:
        yield absent(error.message, error.hint, required=asked.recipe is not None)
        return
    profile = f", profile {source.profile}" if source.profile else ""
    text = f"from {source.origin}{profile}"
    if source.endpoint_url:
        yield SetupFinding(
            "warning",
            f"endpoint_url of the profile: requests go to {mask_urls(source.endpoint_url)}, not to AWS",
            "remove it from ~/.aws/config, unless this is intended",
        )
    yield _expiry(text, source.expires, renewed=source.renewed)


def _expiry(text: str, expires: datetime | None, *, renewed: bool) -> SetupFinding:
    from lmi_deploy.domain.number_text import seconds_text

    if expires is None:
        return SetupFinding("ok", text)
    left = (expires - datetime.now(UTC)).total_seconds()
    if left <= 0:
        return SetupFinding(
            "broken", f"{text}: they have expired", "log in again (`aws sso login`, or new keys)"
        )
    text = f"{text}, valid for {seconds_text(left)}" + (", then renewed" if renewed else "")
    if left < _SOON and not renewed:
        return SetupFinding("warning", text, "log in again before a long command")
    return SetupFinding("ok", text)


def _region(environ: Mapping[str, str]) -> str:
    from lmi_deploy.aws.session import configured_region

    return environ.get("AWS_REGION") or configured_region()


def _identity(cloud: Cloud) -> Iterator[SetupFinding]:
    yield SetupFinding("ok", f"{cloud.caller.arn} in {cloud.caller.region}")


def _permissions(cloud: Cloud, recipe: Recipe, deps: Dependencies) -> Iterator[SetupFinding]:
    from lmi_deploy.targets.sagemaker.setup_checks import permission_check
    from lmi_deploy.workflows.up import resolve_recipe

    yield from permission_check(cloud, resolve_recipe(recipe, deps).spec, recipe.arguments)


def _token(settings: HubSettings, *, offline: bool) -> Iterator[SetupFinding]:
    from lmi_deploy.sources.hub.token_owner import token_owner

    if settings.offline:
        yield SetupFinding(
            "warning", "HF_HUB_OFFLINE is set: only models in the cache can be used", "unset it"
        )
    if settings.token is None:
        yield SetupFinding("ok", "none: enough for public models; `hf auth login` or HF_TOKEN sets one")
    elif offline or settings.offline:
        yield SetupFinding("ok", f"from {settings.token_from}; not sent to the Hub")
    else:
        owner = within(SECONDS, f"{_HUB}, token", lambda: token_owner(settings))
        yield SetupFinding("ok", f"of {owner}, from {settings.token_from}")


def _model(recipe: Recipe, deps: Dependencies) -> tuple[SetupFinding, ...]:
    from lmi_deploy.domain.number_text import counted, size_text

    listing = deps.hub(recipe.model_id).listing(recipe.model_id, recipe.revision)
    size = size_text(sum(file.size for file in listing.files))
    text = f"{recipe.model_id} at {listing.commit[:12]}: {counted(len(listing.files), 'file')}, {size}"
    return (SetupFinding("ok", text),)
