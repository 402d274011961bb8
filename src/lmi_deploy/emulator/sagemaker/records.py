"""What every record of a SageMaker resource begins with."""

from __future__ import annotations

from typing import Any

from lmi_deploy.emulator.context import Ask, World, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.tags import require_good


def new_row(world: World, ask: Ask, arn: str, **more: Any) -> Row:
    """Of what was asked for just now; refused where its tags are not good."""
    now = world.clock.now()
    return {"arn": arn, "created": now, "modified": now, "tags": require_good(tags_of(ask.params)), **more}


def asked_for(ask: Ask) -> Row:
    """What a resource is to be, as it was said."""
    return {key: value for key, value in ask.params.items() if key != "Tags"}
