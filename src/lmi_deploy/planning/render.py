"""Render a Spec to the bytes that are deployed."""

from __future__ import annotations

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.engines.registry import engine


def render(spec: Spec) -> Artifact:
    """The files of the engine's server, sorted by path."""
    files = engine(spec.engine.name).artifact(spec)
    return Artifact(tuple(sorted(files, key=lambda file: file.path)))
