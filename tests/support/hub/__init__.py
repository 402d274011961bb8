"""A Hugging Face Hub on this machine, with the real protocol: for tests, and where the real one is
unreachable."""

from tests.support.hub.repos import HubModels
from tests.support.hub.server import LocalHub, serve_hub
from tests.support.hub.state import HubState, Logged, Quota

__all__ = ["HubModels", "HubState", "LocalHub", "Logged", "Quota", "serve_hub"]
