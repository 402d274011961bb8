"""A bearer token for the OpenAI path of SageMaker's endpoints, as AWS's own token generator makes it: the base64 form
of a presigned request, `POST https://sagemaker.amazonaws.com/?Action=CallWithBearerToken`, without its scheme.

Source: `sagemaker.core.token_generator` of sagemaker-core 2.27.0, read 2026-11-22. tests/e2e/test_clients.py compares
the tokens of both.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from lmi_deploy.aws.credentials import ABSENT
from lmi_deploy.aws.session import credentials_explained, region_of
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import NoCredentials

_HOST: Final = "sagemaker.amazonaws.com"
_PREFIX: Final = "sagemaker-api-key-"
_VERSION: Final = "&Version=1"


def bearer_token(session: Any, seconds: int) -> Secret:
    """NoCredentials if there are none."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    region = region_of(session)
    with credentials_explained():
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentials("AWS credentials: none found", hint=ABSENT)
        # One consistent set: credentials that are refreshed while the request is signed would mix two of them.
        frozen = credentials.get_frozen_credentials()
    request = AWSRequest(
        "POST", f"https://{_HOST}/", {"host": _HOST}, params={"Action": "CallWithBearerToken"}
    )
    SigV4QueryAuth(frozen, "sagemaker", region, expires=seconds).add_auth(request)
    signed = request.url.removeprefix("https://") + _VERSION
    return Secret(_PREFIX + b64encode(signed.encode()).decode())
