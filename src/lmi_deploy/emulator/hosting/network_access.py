"""What a container can reach, and with which identity: AWS with the keys of its role, the Hub; in network isolation
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import Credentials, EmulatorContext

NOWHERE: Final = "http://127.0.0.1:9"
"""An address at which no server listens."""


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """`s3` is an S3 server that is not ours; `hub`, a Hub of the user's own."""

    s3: str = ""
    hub: str = ""

    def variables(
        self, context: EmulatorContext, role: str, region: str, *, isolated: bool
    ) -> dict[str, str]:
        local = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true"}
        if isolated:
            return {**local, "AWS_ENDPOINT_URL": NOWHERE, "HF_ENDPOINT": NOWHERE}
        local["AWS_ENDPOINT_URL"] = context.address
        local["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = context.address + context.keys.add(
            self._keys(context, role, region)
        )
        if self.s3:
            local["AWS_ENDPOINT_URL_S3"] = self.s3
        if self.hub:
            local |= {"HF_ENDPOINT": self.hub, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
        return local

    def _keys(self, context: EmulatorContext, role: str, region: str) -> Credentials:
        """The role's; those that an outside S3 server knows, as that knows no roles."""
        if context.s3_keys is not None:
            return context.s3_keys
        return context.roles.assume(role, "SageMaker", region)
