"""What botocore derives of AWS's published models is derived once per process instead of once per client. No setting of
a session, no credential and no address is among it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

import botocore.client
import botocore.hooks
import botocore.regions
import botocore.session
from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import JSONFileLoader, Loader

_lock = threading.RLock()


def install() -> None:
    """In this process, for every client from now on."""
    # By the path alone: each session has a loader of its own.
    JSONFileLoader.load_file = _once(JSONFileLoader.load_file, lambda _loader, path: path)
    Loader.list_available_services = _once(
        Loader.list_available_services, lambda loader, type_name: (tuple(loader.search_paths), type_name)
    )
    aliaser = botocore.hooks.EventAliaser
    aliaser._alias_event_name = _once(
        aliaser._alias_event_name, lambda events, name: (id(events._event_aliases), name)
    )
    botocore.hooks.accepts_kwargs = _of_functions(botocore.hooks.accepts_kwargs)
    creator = botocore.client.ClientCreator
    creator._load_service_model = _once(creator._load_service_model, _model_key)
    creator._create_client_class = _once(
        creator._create_client_class, lambda _creator, service, model: (service, id(model))
    )
    botocore.regions.EndpointProvider = _once(EndpointProvider, _rules_key)
    botocore.session.ClientExceptionsFactory = _once(botocore.session.ClientExceptionsFactory, lambda: ())


def _model_key(creator: Any, service: str, api_version: str | None = None) -> Hashable:
    """The folders that models are read from, and which model it is."""
    return tuple(creator._loader.search_paths), service, api_version


def _rules_key(*, ruleset_data: Any, partition_data: Any, excluded_params: Any = None) -> Hashable:
    """Both are read by the cached loader, and never freed."""
    return id(ruleset_data), id(partition_data), frozenset(excluded_params or ())


def _of_functions(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """`check`, once for each function of a module; what holds objects is not kept alive."""
    once = _once(check, lambda function: function)

    def checked(called: Any) -> bool:
        lasting = isinstance(called, FunctionType) and called.__closure__ is None
        return bool((once if lasting else check)(called))

    return checked


def _once(make: Callable[..., Any], key: Callable[..., Hashable]) -> Callable[..., Any]:
    """`make`, called once for each key."""
    made: dict[Hashable, Any] = {}

    def cached(*given: Any, **named: Any) -> Any:
        name = key(*given, **named)
        with _lock:
            if name not in made:
                made[name] = make(*given, **named)
            return made[name]

    return cached
