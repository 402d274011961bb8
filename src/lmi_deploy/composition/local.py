"""The composition root: the one place that plugs adapters into ports. Tests hand other Deps to the commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.composition.user_folders import REMEMBERED, cache_folder, state_folder
from lmi_deploy.domain.local_actions import StartServer
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.domain.record import Record
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.workflows.dependencies import Dependencies

if TYPE_CHECKING:
    from lmi_deploy.domain.gathered_facts import AvailableRuntimes
    from lmi_deploy.domain.record import DeploymentRef
    from lmi_deploy.ports.clock import Clock
    from lmi_deploy.ports.compiled_models import CompiledModels
    from lmi_deploy.ports.hub import Hub
    from lmi_deploy.ports.local_state import State
    from lmi_deploy.ports.model_server import ModelServer
    from lmi_deploy.ports.price_cache import PriceCache
    from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments
    from lmi_deploy.state.state_dir import StateDir
    from lmi_deploy.targets.local.target import LocalTarget

_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY(_ID)?)(_|$)")
FIRST_PORT = 8080
HOST = "127.0.0.1"


def wire(
    environ: Mapping[str, str] = os.environ, *, notify: Notify = ignore, profile: str = ""
) -> Dependencies:
    """All that a command may need, opened late. `notify` is for messages that no event carries, `profile` AWS's."""
    from lmi_deploy.aws.clock_skew import AwsClock, ClockSkew
    from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
    from lmi_deploy.aws.public_price_list import PublicPriceList
    from lmi_deploy.composition import targets as opening
    from lmi_deploy.composition.weights import open_weights
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.host.recipe_author import recipe_author
    from lmi_deploy.runtimes.compiled_models import CompiledModelFolders
    from lmi_deploy.sources.local_folder import LocalModelFiles

    clock, state, skew = SystemClock(), _state(environ), ClockSkew()
    compiled_models = CompiledModelFolders(cache_folder(environ) / "compiled", server_environment(environ))
    local = _local_target(environ, state, clock, compiled_models)
    clouds = opening.CloudFactory(clock, environ, notify, LeaseGuard(), skew, profile)
    hub = partial(_hub_address, environ)
    aws_clock = AwsClock(clock, skew)
    cloud = opening.sagemaker(clouds, aws_clock, state.root / REMEMBERED, local.builder, hub_address=hub)
    return Dependencies(
        hub=_hubs(environ, notify),
        files=LocalModelFiles,
        weights=lambda asked, memory_mb: open_weights(
            asked,
            memory_mb,
            clock,
            environ,
            notify=notify,
            account=clouds.opened_account(asked.region, asked.profile),
        ),
        recipe_author=recipe_author,
        target_issues=opening.recipe_issues,
        targets={"local": local, "sagemaker": cloud},
        trial=local,
        compilers=opening.compilers(local, cloud),
        exporters=opening.exporters(cloud),
        adopter=lambda: opening.adopter(cloud),
        servers=local.servers,
        environments=local.environments,
        images=local.builder,
        compiled_models=compiled_models,
        journal=opening.journals(state, cloud),
        lock=opening.locks(state, cloud, clock),
        cloud=clouds.cloud,
        for_profile=lambda named: wire(environ, notify=notify, profile=named),
        price_cache=price_cache(environ),
        price_list=PublicPriceList(environ, aws_clock),
        clock=aws_clock,
        machine=local.machine,
        load_machines=opening.load_machines(cloud, environ),
        runtimes=local.runtimes,
    )


def _local_target(
    environ: Mapping[str, str], state: StateDir, clock: Clock, compiled_models: CompiledModels
) -> LocalTarget:
    from lmi_deploy.composition.targets import image_builder
    from lmi_deploy.host.machine import PortReservations, machine
    from lmi_deploy.targets.local.target import LocalTarget

    ports = PortReservations(HOST, start=FIRST_PORT)
    local = LocalTarget(
        state=state,
        servers=servers_at(environ),
        environments=environments_at(environ),
        builder=image_builder(environ, server_environment(environ)),
        compiled_models=compiled_models,
        clock=clock,
        machine=lambda: machine(environ),
        port=lambda name: port_of(name, state, local.status_of_home, ports.reserve),
        release_port=ports.release,
        runtimes=lambda image: _available_runtimes(image, environ),
    )
    return local


def run_emulator(flags: list[str]) -> int:
    """Start the emulator with this terminal, and wait for its end; UsageRefused if its extra is not installed."""
    return _run_program("emulator", flags, os.environ, extras=("emulator", "local"))


def _run_program(name: str, flags: list[str], environ: Mapping[str, str], *, extras: tuple[str, ...]) -> int:
    """One of our programs, whose extra has the same name; `extras`: those that it needs."""
    from importlib.util import find_spec

    from lmi_deploy.errors import EXTRAS, NotInstalled
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock

    for package, extra in EXTRAS.items():
        if extra in extras and find_spec(package) is None:
            raise NotInstalled(package, extra=name)
    # The last occurrence of a flag counts: unless the user sets it, the program exits with this process, however
    # that exits.
    argv = [sys.executable, "-m", f"lmi_deploy.{name}", "--parent-pid", str(os.getpid()), *flags]
    return LocalProcesses(SystemClock()).foreground(argv, environment=environ)


def run_hub(flags: list[str], environ: Mapping[str, str]) -> int:
    """Start the Hub over a folder with this terminal, and wait for its end; UsageRefused without its extra."""
    from importlib.util import find_spec

    from lmi_deploy.errors import NotInstalled

    if find_spec("aiohttp") is None:
        raise NotInstalled("aiohttp", extra="hub")
    hashes = cache_folder(environ) / "hub-hashes"
    return _run_program("hub", ["--hashes", str(hashes), *flags], environ, extras=())


def run_proxy(flags: list[str], refs: Sequence[DeploymentRef], environ: Mapping[str, str]) -> int:
    """Start the proxy with this terminal, and wait for its end; UsageRefused if its extra is not installed."""
    import json
    from dataclasses import asdict

    named = [text for ref in refs for text in ("--deployment", json.dumps(asdict(ref)))]
    return _run_program("proxy", [*flags, *named], environ, extras=("proxy",))


def environments_at(environ: Mapping[str, str]) -> LocalEnvironments:
    """Serving environments and DJL's engine, in the cache folder."""
    from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments

    wheelhouse = environ.get("LMI_WHEELHOUSE")
    return LocalEnvironments(cache_folder(environ), environ, Path(wheelhouse) if wheelhouse else None)


def price_cache(environ: Mapping[str, str]) -> PriceCache:
    """The user's own price tables, in the cache folder."""
    from lmi_deploy.state.price_files import PriceFiles

    return PriceFiles(cache_folder(environ) / "prices", refreshed=environ.get("LMI_PRICE_REFRESH") != "off")


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a model server inherits: none that is or may be a secret, and no access to the Hub (weights
    are local).
    """
    kept = {
        key: value
        for key, value in environ.items()
        if not _SECRET.search(key.upper()) and not key.startswith("AWS_")
    }
    # The last one would have every worker compile torch and transformers again, some 20 s at each start.
    for key in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
        kept.pop(key, None)
    return {**kept, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _state(environ: Mapping[str, str]) -> StateDir:
    from lmi_deploy.state.state_dir import StateDir

    return StateDir(state_folder(environ))


def servers_at(environ: Mapping[str, str]) -> dict[str, ModelServer]:
    """The runtimes by name. An installation or a container CLI is looked up when it is needed."""
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.runtimes.container.container_cli import find_engine
    from lmi_deploy.runtimes.container.runtime import ContainerServer
    from lmi_deploy.runtimes.djl_serving import DjlServing, find_installation
    from lmi_deploy.runtimes.embedded import Embedded
    from lmi_deploy.runtimes.server_process import ProgramServer
    from lmi_deploy.runtimes.triton.runtime import triton_program

    clock = SystemClock()
    processes, inherited = LocalProcesses(clock), server_environment(environ)
    return {
        "embedded": Embedded(processes, clock, inherited),
        "djl-serving": ProgramServer(processes, DjlServing(inherited, lambda: find_installation(environ))),
        "triton": ProgramServer(processes, triton_program(inherited)),
        "container": ContainerServer(processes, inherited, lambda: find_engine(environ)),
    }


def _available_runtimes(image: str | None, environ: Mapping[str, str]) -> AvailableRuntimes:
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.host.machine import machine
    from lmi_deploy.runtimes.runtime_detection import RuntimeDetector

    found = RuntimeDetector(
        processes=LocalProcesses(SystemClock()),
        environ=environ,
        environment=server_environment(environ),
        devices=lambda: len(machine(environ).accelerators),
    )
    return found.at_hand(image)


def _hub_address(environ: Mapping[str, str]) -> str:
    from lmi_deploy.sources.hub.hub_settings import PUBLIC_HUB, HubSettings

    endpoint = HubSettings.read(environ, Path.home()).endpoint
    return "" if endpoint == PUBLIC_HUB else endpoint


def _hubs(environ: Mapping[str, str], notify: Notify) -> Callable[[str], Hub]:
    """The source of a model id: a folder, S3 or the Hub, of which one client lasts as long as the command."""

    @cache
    def hub() -> Hub:
        from lmi_deploy.host.clock import SystemClock
        from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub

        ledger = cache_folder(environ) / "hub-checked"
        return HuggingFaceHub(HubSettings.read(environ, Path.home()), SystemClock(), ledger=ledger)

    @cache
    def s3() -> Hub:
        from lmi_deploy.composition.weights import open_s3_models
        from lmi_deploy.host.clock import SystemClock

        return open_s3_models(cache_folder(environ), SystemClock(), environ, notify=notify)

    def source(model_id: str) -> Hub:
        if model_id.startswith("s3://"):
            return s3()
        if is_folder(model_id):
            from lmi_deploy.sources.local_folder import LocalModel

            return LocalModel()
        return hub()

    return source


def port_of(
    name: str,
    state: State,
    observe: Callable[[Path], ObservedServer],
    reserve: Callable[[str, frozenset[int]], int],
) -> int:
    """The existing port of the deployment, else a free one that no other deployment has in its record."""
    record = state.read(name)
    # A record may be lost; the servers that it listed are still found.
    observed = () if record else (observe(home) for home in state.servers(name))
    own = _recorded_port(record) or next((s.port for s in observed if s.phase == "ready" and s.port), None)
    if own is not None:
        return own
    others = (_recorded_port(state.read(other)) for other in state.names() if other != name)
    return reserve(name, frozenset(port for port in others if port))


def _recorded_port(record: Record | None) -> int | None:
    """The port of the current generation, else of the server that an unfinished `up` started."""
    if record is None:
        return None
    if record.current is not None:
        return record.current.port
    ports = (intent.names.get("port") for intent in record.started(StartServer))
    return next((port for port in ports if port), None)
