"""Secrets Manager: the port Secrets, which never reads a value; and the value, for the job that may read it."""

from __future__ import annotations

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.host.clock import SystemClock


class AwsSecrets:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "secretsmanager")

    def exists(self, name: str) -> bool:
        try:
            response = self._api("describe_secret", f"secret {name}", resource=name, SecretId=name)
        except NotFound:
            return False
        return "DeletedDate" not in response


def read_secret(session: SessionFactory, name: str) -> Secret:
    """The text of a secret; NotFound, AccessError. Only for a job that reads it with its own role."""
    api = Service(AwsConnection(session=session, clock=SystemClock()), "secretsmanager")
    response = api("get_secret_value", f"secret {name}", resource=name, SecretId=name)
    text = str(response.get("SecretString", "")).strip()
    if not text:
        raise UsageRefused(f"secret {name}: it contains no text", hint="store the token as plain text")
    return Secret(text)
