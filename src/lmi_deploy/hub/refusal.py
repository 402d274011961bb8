"""The Hub's errors with their original texts: clients distinguish them by status, header and text."""

from __future__ import annotations

from aiohttp import web

from lmi_deploy.hub.repositories import ModelRepository, Snapshot


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


def no_repository() -> Refusal:
    return Refusal(404, "RepoNotFound", "ModelRepository not found")


def revision_of(repository: ModelRepository, revision: str) -> Snapshot:
    snapshot = repository.at(revision)
    if snapshot is None:
        raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return snapshot


def token_of(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" and token else None
