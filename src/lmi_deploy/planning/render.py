"""Render a Spec to the bytes that are deployed."""

from __future__ import annotations

from collections import Counter

from lmi_deploy.domain.deployment_artifact import Artifact, ArtifactFile
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.safe_paths import case_collisions
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.additional_models import copied_files


def render(spec: Spec) -> Artifact:
    """The files of the engine's server and the user's, sorted by path, and those of the adapters. Unresolvable if two
    of them are for one place.
    """
    extra = tuple(ArtifactFile(path, content) for path, content in spec.inputs.extra)
    files = tuple(sorted((*ENGINES[spec.engine.name].artifact(spec), *extra), key=lambda file: file.path))
    artifact = Artifact(files, () if spec.has_adapter_components else copied_files(spec.weights))
    if clash := next(iter(_clashes(artifact.paths)), ()):
        raise Unresolvable(
            f"files.extra: the artifact cannot contain {' and '.join(dict.fromkeys(clash))}: they are one path",
            hint="choose another path; lmi writes the files of the engine itself",
        )
    return artifact


def _clashes(paths: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    same = tuple((path,) for path, count in Counter(paths).items() if count > 1)
    return (*same, *case_collisions(paths))
