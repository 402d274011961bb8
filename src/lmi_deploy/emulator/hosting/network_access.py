"""What a container can reach, and as whom: AWS with the keys of its role, the Hub; in network isolation nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import Credentials, World

NOWHERE: Final = "http://127.0.0.1:9"
"""An address that nobody answers at."""


@dataclass(frozen=True, slots=True)
class Reach:
    """`s3` is an S3 server that is not ours; `hub`, a Hub of the user's own."""

    s3: str = ""
    hub: str = ""

    def variables(self, world: World, role: str, region: str, *, isolated: bool) -> dict[str, str]:
        here = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true"}
        if isolated:
            return {**here, "AWS_ENDPOINT_URL": NOWHERE, "HF_ENDPOINT": NOWHERE}
        here["AWS_ENDPOINT_URL"] = world.address
        here["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = world.address + world.keys.keep(
            self._keys(world, role, region)
        )
        if self.s3:
            here["AWS_ENDPOINT_URL_S3"] = self.s3
        if self.hub:
            here |= {"HF_ENDPOINT": self.hub, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
        return here

    def _keys(self, world: World, role: str, region: str) -> Credentials:
        """The role's; those that an outside S3 server knows, as that knows no roles."""
        if world.s3_keys is not None:
            return world.s3_keys
        return world.roles.assume(role, "SageMaker", region)
