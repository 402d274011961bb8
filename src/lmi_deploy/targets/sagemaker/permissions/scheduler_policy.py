"""Deletion of an endpoint at its expiry: the permissions of the schedule's role, and of who creates the schedule.

The endpoint's variants may be scaled: "If you use a custom permission policy that doesn't provide permission for the
DeregisterScalableTarget action, you must request access to this action before deleting the endpoint" (SageMaker's
developer guide, "Delete endpoints configured for auto scaling").
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.permissions import SCHEDULER, PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.policy_statements import pass_role


def scheduler(arns: Arns) -> Iterator[PolicyStatement]:
    """Of the role."""
    yield PolicyStatement(
        sid="DeleteEndpoint",
        actions=("sagemaker:DeleteEndpoint",),
        resources=(arns.endpoint,),
        why="delete the endpoint when it expires",
    )
    yield PolicyStatement(
        sid="EndScaling",
        actions=("application-autoscaling:DeregisterScalableTarget",),
        resources=(arns.targets,),
        why="AWS requires it to delete an endpoint that is scaled",
    )


def schedule_deletion(role: str, arns: Arns) -> Iterator[PolicyStatement]:
    """Of the deployer."""
    yield PolicyStatement(
        sid="ScheduleDeletion",
        actions=(
            "scheduler:CreateSchedule",
            "scheduler:DeleteSchedule",
            "scheduler:GetSchedule",
            "scheduler:UpdateSchedule",
        ),
        resources=(arns.schedule,),
        why="the schedule that deletes the endpoint when it expires (endpoint.scheduler_role)",
    )
    yield pass_role(role, sid="HandOverSchedulerRole", what="the schedule's role", to=SCHEDULER)
