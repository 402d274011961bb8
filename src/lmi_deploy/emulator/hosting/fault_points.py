"""The points at which a fault rule can make the service fail, hang or take long."""

from __future__ import annotations

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Answer, Call, Hang
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed


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
