"""What an alarm that changes its state sends to SNS topics, which moto delivers to their queues.

Source: CloudWatch user guide, "Notifying users on alarm changes": AlarmActions for ALARM, OKActions for OK,
InsufficientDataActions for INSUFFICIENT_DATA; none while ActionsEnabled is false. A topic that does not exist is no
error for anybody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext

_ACTIONS: Final = {
    "ALARM": "AlarmActions",
    "OK": "OKActions",
    "INSUFFICIENT_DATA": "InsufficientDataActions",
}


def notify(context: EmulatorContext, region: str, name: str, row: Mapping[str, Any], before: str) -> None:
    """`row`: the alarm in its new state; `before` is the old one."""
    params = row["params"]
    if row["state"] == before or not params.get("ActionsEnabled", True):
        return
    for action in params.get(_ACTIONS[row["state"]], ()):
        if action.startswith(f"arn:aws:sns:{region}:"):
            _publish(context, region, action, name, row, before)


def _publish(
    context: EmulatorContext, region: str, topic: str, name: str, row: Mapping[str, Any], before: str
) -> None:
    from moto.backends import get_backend

    topics = get_backend("sns")[context.account][region]
    if topic not in topics.topics:
        return
    message = {
        "AlarmName": name,
        "AlarmDescription": row["params"].get("AlarmDescription"),
        "AWSAccountId": context.account,
        "NewStateValue": row["state"],
        "NewStateReason": row["reason"],
        "OldStateValue": before,
        "Region": region,
        "AlarmArn": row["arn"],
    }
    topics.publish(json.dumps(message), arn=topic, subject=f'{row["state"]}: "{name}" in {region}')
