"""Who may read what: private and gated repositories, and tokens."""

from __future__ import annotations

from aiohttp import web

from lmi_deploy.hub.refusal import Refusal, token_of
from tests.support.hub.repos import Repo
from tests.support.hub.state import HubState


def check_token(state: HubState, request: web.Request) -> None:
    """A token that is sent must be valid, even where none is needed."""
    token = token_of(request)
    if token is not None and not state.knows(token):
        raise Refusal(401, "", "Invalid credentials in Authorization header")


def check_gate(state: HubState, request: web.Request, repo: Repo) -> None:
    """Files of a gated repository are for users who accepted its conditions; its listing is for all."""
    token = token_of(request)
    if state.may_read(repo.settings, token):
        return
    if token is None:
        why = "You must have access to it and be authenticated to access it. Please log in."
        raise Refusal(401, "GatedRepo", f"Access to model {repo.id} is restricted. {why}")
    why = f"and you are not in the authorized list. Visit https://huggingface.co/{repo.id} to ask for access."
    raise Refusal(403, "GatedRepo", f"Access to model {repo.id} is restricted {why}")
