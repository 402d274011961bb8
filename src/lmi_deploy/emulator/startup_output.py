"""The startup output of the program: shell variables to source, or JSON Lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from lmi_deploy.emulator.iam.keyring import KeyPair
from lmi_deploy.errors import LmiError


def environment_of(address: str, s3: str, key: KeyPair | None) -> dict[str, str]:
    """The variables that a client sets; `key` is None if it must already have the key."""
    return {
        "AWS_ENDPOINT_URL": address,
        **({"AWS_ENDPOINT_URL_S3": s3} if s3 else {}),
        **({"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret} if key is not None else {}),
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def announce(environment: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        _line("listening", {"environment": dict(environment)})
        return
    sys.stdout.writelines(f"export {name}={value}\n" for name, value in environment.items())
    sys.stdout.flush()


def report_exit(error: LmiError | None, *, as_json: bool) -> None:
    if as_json and error is None:
        _line("result", {"ok": True, "exit_code": 0})
    elif as_json and error is not None:
        description = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        fields = {"kind": type(error).__name__, "exit_code": error.exit_code, **description}
        _line("result", {"ok": False, "error": fields})
    elif error is not None:
        sys.stderr.write(f"error: {error.message}\n" + (f"  next: {error.hint}\n" if error.hint else ""))


def _line(event: str, fields: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
