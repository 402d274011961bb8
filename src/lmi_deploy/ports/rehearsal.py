"""The private place in which a recipe is rehearsed: a folder, a stand-in model, an emulated account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.rehearsal_report import StandInModel
from lmi_deploy.ports.hub import Hub


class RehearsalSite(Protocol):
    """Everything in it is gone when the rehearsal ends, unless it is kept."""

    @property
    def folder(self) -> Path: ...

    def write_model(
        self, listing: ModelListing, model: StandInModel, copied: Mapping[str, Path]
    ) -> tuple[Hub, ModelListing]:
        """A folder with the files of `model`, and its listing under the name and commit of `listing`. `copied`: its
        files on this machine, by path.
        """

    def compiled_source(self, folder: Path) -> Hub:
        """A folder with what was compiled, as the source of the model."""

    def start_emulator(self, python: Path, region: str) -> None:
        """From now on this process's account is the emulated one, with the permissions of its root."""

    def grant(self, spec: Spec) -> bool:
        """Create the roles and the bucket that the recipe names. From now on this process's permissions are those
        that `lmi iam` prints, and so are the roles'. False, and nothing done, without an emulated account.
        """

    def artifact_differences(self, spec: Spec, artifact: Artifact) -> tuple[str, ...]:
        """Files in the emulated bucket that are not, byte for byte, those of the artifact with the location of the
        weights filled in; none without an emulated account.
        """

    def emulated_seconds(self) -> float:
        """The emulated clock; 0 without an emulator."""

    def variables(self) -> Mapping[str, str]:
        """The environment in which other commands reach the emulated account."""
