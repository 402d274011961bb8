"""botocore's own service models, loaded at the first request for a service."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def service_model(name: str) -> Any:
    """The botocore `ServiceModel` of a service; a shape of it knows its type, members and limits."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model(name, "service-2"), service_name=name)


@cache
def botocore_version() -> str:
    import botocore

    return str(botocore.__version__)


def operation_names(name: str) -> frozenset[str]:
    return frozenset(service_model(name).operation_names)
