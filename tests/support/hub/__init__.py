"""A Hugging Face Hub on this machine, with the real protocol: for tests, and where the real one is out of reach."""

from tests.support.hub.repos import Shelf
from tests.support.hub.server import LocalHub, serve_hub
from tests.support.hub.state import HubState, Logged, Quota

__all__ = ["HubState", "LocalHub", "Logged", "Quota", "Shelf", "serve_hub"]
