"""The Hugging Face Hub behind the port `Hub`: listing, small reads, and downloads into the user's own cache."""

from lmi_deploy.sources.hub.client import HuggingFaceHub
from lmi_deploy.sources.hub.hub_settings import HubSettings

__all__ = ["HubSettings", "HuggingFaceHub"]
