"""URLs in the environment may contain a user, a password and a token: no command prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.landing

UNREACHABLE = "http://canary-user:canary-pw@127.0.0.1:9/?token=canary-token"
RECIPE = (
    "name: q\nmodel_id: a/b\nengine: accelerate\ninstance_type: ml.g5.xlarge\nendpoint: {target: sagemaker}\n"
)
COMMANDS = (
    ("plan", "r.yaml"),
    ("init", "a/b", "--json"),
    ("weights", "ls", "--bucket", "b"),
    ("ls", "--all", "--json"),
)


@pytest.mark.parametrize(
    "endpoint", [UNREACHABLE, "canary-user:canary-pw@127.0.0.1:9", "http://c:canary/pw@host:9"]
)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_password_in_an_endpoint_url_is_never_printed(
    command: tuple[str, ...], endpoint: str, tmp_path: Path
) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HF_"))},
        **{
            "HOME": str(tmp_path),
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_REGION": "us-east-1",
        },
        **{"HF_ENDPOINT": endpoint, "AWS_ENDPOINT_URL": endpoint, "AWS_MAX_ATTEMPTS": "1"},
    }
    done = subprocess.run(
        [sys.executable, "-c", "from lmi_deploy.cli import main; main()", *command],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "canary" not in done.stdout + done.stderr
    assert done.returncode in (0, 1, 2), done.stderr
