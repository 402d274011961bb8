"""The keys that requests are signed with outside boto3, from the same session."""

from __future__ import annotations

import threading
from typing import Any

from lmi_deploy.aws.credentials import ABSENT
from lmi_deploy.aws.session import SessionFactory, credentials_explained, fresh_session
from lmi_deploy.domain.inference_http import SigningKeys
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import NoCredentials


class SessionKeys:
    """A KeySource. botocore refreshes keys that end soon; `renew` reads the whole chain again, as after a login."""

    def __init__(self, factory: SessionFactory) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._session: Any = None

    def __call__(self, *, renew: bool = False) -> SigningKeys:
        with self._lock, credentials_explained():
            if self._session is None:
                self._session = self._factory()
            elif renew:
                self._session = fresh_session(self._factory, self._session)
            credentials = self._session.get_credentials()
            if credentials is None:
                raise NoCredentials("AWS credentials: none found", hint=ABSENT)
            keys = credentials.get_frozen_credentials()
        return SigningKeys(
            access_key=keys.access_key,
            secret_key=Secret(keys.secret_key),
            token=Secret(keys.token) if keys.token else None,
        )
