"""One emulator a file, and our adapters before it."""

from tests.support.sagemaker_fixtures import *  # noqa: F403
