"""The Hub's errors with their original texts: clients distinguish them by status, header and text."""

from __future__ import annotations

from aiohttp import web

from tests.support.hub.repos import Repo, Snapshot
from tests.support.hub.state import HubState, token_of


class Refusal(Exception):
    """A response that ends the request; `code` is the `X-Error-Code`."""

    def __init__(self, status: int, code: str, text: str, commit: str | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.text, self.commit = status, code, text, commit

    def response(self) -> web.Response:
        headers = {"X-Error-Message": self.text}
        if self.code:
            headers["X-Error-Code"] = self.code
        if self.commit:
            headers["X-Repo-Commit"] = self.commit
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="Authentication required", charset="UTF-8"'
        return web.json_response({"error": self.text}, status=self.status, headers=headers)


def check_token(state: HubState, request: web.Request) -> None:
    """A token that is sent must be valid, even where none is needed."""
    token = token_of(request)
    if token is not None and not state.knows(token):
        raise Refusal(401, "", "Invalid credentials in Authorization header")


def visible(state: HubState, request: web.Request) -> Repo:
    """The requested repository; a private one looks exactly like a missing one."""
    repo = state.models.find(f"{request.match_info['org']}/{request.match_info['name']}")
    token = token_of(request)
    if repo is not None and state.may_see(repo, token):
        return repo
    if token is None:
        raise Refusal(401, "RepoNotFound", "Invalid username or password.")
    raise Refusal(404, "RepoNotFound", "Repository not found")


def revision_of(repo: Repo, revision: str) -> Snapshot:
    snapshot = repo.at(revision)
    if snapshot is None:
        raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return snapshot


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
