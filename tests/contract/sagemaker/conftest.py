"""One emulator per file, and our adapters connected to it."""

from tests.support.sagemaker_fixtures import *  # noqa: F403
