"""An optimization job of SageMaker: it compiles, or shards, a model in S3 with an image of LMI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import digest_tag

Technique = Literal["ModelCompilationConfig", "ModelShardingConfig"]
"""Members of OptimizationConfigs."""
MOST_VARIABLES = 25
LONGEST_VALUE = 256
"""Of OverrideEnvironment (CreateOptimizationJob)."""


@digest_tag("OptimizationSettings")
@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationSettings:
    """All of CreateOptimizationJob but name and tags."""

    role: str
    image: str
    instance: str
    """The type that will serve: SageMaker chooses the one that compiles."""
    technique: Technique
    environment: Pairs
    timeout: int
    """Seconds."""
    source: str = ""
    """The s3:// prefix of the model."""
    output: str = ""
    """The s3:// prefix of the result."""
    kms_key: str = ""
    vpc: Vpc | None = None

    @property
    def title(self) -> str:
        return f"an optimization job for {self.instance}"
