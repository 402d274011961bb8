"""One emulator a file, and our adapters before it."""

from tests.support.sagemaker_fixtures import aws, chain, cloud, enforcing, hosting, recorder, serving

__all__ = ["aws", "chain", "cloud", "enforcing", "hosting", "recorder", "serving"]
