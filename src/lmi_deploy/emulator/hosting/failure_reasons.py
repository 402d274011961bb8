"""How a resource fails: with SageMaker's FailureReason, and at the points where a fault rule makes it fail."""

from __future__ import annotations

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Answer, Call, Hang


class HostingFailed(Exception):
    """`reason` is copied unchanged into the record of the resource."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def apply_faults(context: EmulatorContext, call: Call) -> None:
    """The effect of a rule: wait its delay, then fail (`answer`, its body the reason) or hang."""
    rule = context.faults.apply(call)
    if rule is None:
        return
    await context.clock.sleep(rule.delay)
    match rule.do:
        case Answer(body=body):
            raise HostingFailed(body)
        case Hang(seconds=seconds):
            await context.clock.sleep(seconds)
        case _:
            return
