"""An endpoint that belongs to the deployment by its record or its parts, and has lost its ownership tag."""

from __future__ import annotations

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.sagemaker.resource_settings import TAG, ObservedEndpoint
from lmi_deploy.errors import NotFound, NotOwned, Refused


def missing_tag_text(observed: CloudObserved) -> str:
    """What happened to the tag; empty if the endpoint of this name is ours, or unrelated to lmi."""
    return f"{observed.not_owned_reason}, but {observed.ownership}" if observed.ownership else ""


def require_ownership_tag(observed: CloudObserved, *, cost: str = "") -> None:
    """Refuse: a command that changes or deletes parts of such an endpoint would no longer find it, and it keeps
    costing.
    """
    if words := missing_tag_text(observed):
        raise Refused(
            words + (f"; it costs {cost}" if cost else ""),
            hint=f"nothing was changed. {tag_command(observed)}; then run the same command again. If it is not "
            "yours, ask its owner: it uses resources of this deployment",
        )


def require_endpoint(observed: CloudObserved) -> ObservedEndpoint:
    """The endpoint of the deployment. Refused if it is not ours, NotFound if there is none."""
    require_ownership_tag(observed)
    if observed.not_owned_reason:
        raise NotOwned(observed.not_owned_reason, hint="it was not changed")
    if observed.endpoint is None or observed.endpoint.status == "Deleting":
        missing = "its endpoint is being deleted" if observed.endpoint else "it has no endpoint"
        raise NotFound(f"{observed.ref.name}: {missing}", hint="run `lmi status` for the details")
    return observed.endpoint


def tag_command(observed: CloudObserved) -> str:
    """How the tag is put back."""
    name, region = observed.ref.name, observed.ref.region
    arn = observed.endpoint.arn if observed.endpoint else ""
    tag = f"Key={TAG},Value={name}"
    return f"If it is yours, tag it again: aws sagemaker add-tags --region {region} --resource-arn {arn} --tags {tag}"
