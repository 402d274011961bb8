"""An endpoint that another tool made: as much of it as a recipe can have, and the names of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import (
    EndpointConfigSettings,
    ModelSettings,
    ObservedEndpoint,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignScaling:
    """What Application Auto Scaling does with a variant: `invocations` a minute and instance that target tracking aims
    at, 0 if no policy does; `policies` are the others.
    """

    least: int
    most: int
    invocations: int = 0
    policies: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        by = f", {self.invocations} invocations a minute each" if self.invocations else ""
        return f"{self.least} to {self.most} instances{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEndpointConfig:
    """`settings` are those of its first production variant, whatever that is called; `not_read` are AWS's names."""

    name: str
    arn: str
    settings: EndpointConfigSettings
    variants: tuple[str, ...]
    shadows: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignModel:
    """`archive`: the S3 address of a compressed model, which SageMaker unpacks to /opt/ml/model."""

    name: str
    arn: str
    settings: ModelSettings
    archive: str = ""
    containers: int = 1
    not_read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEndpoint:
    """`tags`: by ARN, of endpoint, config and model. `shared`: why config and model stay as they are; empty if they
    belong to this endpoint alone.
    """

    endpoint: ObservedEndpoint
    config: ForeignEndpointConfig
    model: ForeignModel
    tags: dict[str, Pairs]
    region: str
    scaling: ForeignScaling | None = None
    shared: str = ""

    def tags_of(self, arn: str) -> dict[str, str]:
        return dict(self.tags.get(arn, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What is in S3 beside the weights: serving.properties as pairs, paths of code beside the recipe, `weights` as an
    S3 prefix if there are any; `notes` say what could not be read.
    """

    properties: Mapping[str, str]
    model_py: str = ""
    requirements: str = ""
    weights: str = ""
    other_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
