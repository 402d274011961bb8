"""Programs of other vendors, in environments of their own: AWS CLI, boto3, sagemaker-core; OpenAI's client library and
LangChain; checkers of policies, pipelines and CloudFormation templates; and Terraform's provider."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.djl_engine import cache_home

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
PROVIDER = "hashicorp/aws"
_MIRRORS = ("~/.terraform.d/plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins")


def clients() -> Path:
    """The bin folder of the AWS CLI, boto3 and sagemaker-core (about 500 MB)."""
    return _environment("clients")


def openai_clients() -> Path:
    """The bin folder of openai and langchain-openai."""
    return _environment("openai-clients")


def load_tools() -> Path:
    """The bin folder of aiperf (250 MB)."""
    return _environment("load-tools")


def policy_checkers() -> Path:
    """The bin folder of parliament and policy-sentry (about 90 MB)."""
    return _environment("policies")


def pipeline_checkers() -> Path:
    """The bin folder of check-jsonschema, sarif-pydantic and junitparser (about 30 MB)."""
    return _environment("pipelines")


def stack_checkers() -> Path:
    """The bin folder of cfn-lint (about 180 MB)."""
    return _environment("stacks")


def _environment(name: str) -> Path:
    """Built once into the tool's cache by the first test that needs it."""
    requirements = REQUIREMENTS / f"{name}.txt"
    stamp = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    final = cache_home() / "tools" / f"{name}-{stamp}"
    final.parent.mkdir(parents=True, exist_ok=True)
    with final.with_name(f".{final.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (final / ".complete").exists():
            _build(final, requirements)
    return final / "bin"


def _build(final: Path, requirements: Path) -> None:
    uv, python = [sys.executable, "-m", "uv"], str(final / "bin" / "python")
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    source = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, str(final)], check=True)
    install = [*uv, "pip", "install", "-q", "--compile-bytecode", "--python", python, *source]
    subprocess.run([*install, "--require-hashes", "-r", str(requirements)], check=True)
    (final / ".complete").touch()


def client_environment(url: str, pair: Mapping[str, str], home: Path, **more: str) -> dict[str, str]:
    """The environment of a client: URL, keys, a region; nothing of the user who runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "TF_", "PYTHON"))}
    keys = {**pair, "AWS_DEFAULT_REGION": "us-east-1"}
    return {**kept, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", **keys, "HOME": str(home), **more}


def terraform_environment(folder: Path) -> dict[str, str]:
    """Where the provider comes from: a copy on this machine, else the user's own configuration."""
    mirror = _mirror()
    kept = {"TF_CLI_CONFIG_FILE": os.environ.get("TF_CLI_CONFIG_FILE", ""), "CHECKPOINT_DISABLE": "1"}
    if mirror is None:
        return {key: value for key, value in kept.items() if value}
    written = folder / "terraform.rc"
    written.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n')
    return {**kept, "TF_CLI_CONFIG_FILE": str(written)}


def _mirror() -> Path | None:
    """A folder with the layout of a Terraform mirror, with the provider in it."""
    provider = f"*/{PROVIDER}/*/*/terraform-provider-*"
    return next((place for place in _places() if any(place.glob(provider))), None)


def _places() -> Iterator[Path]:
    yield from (Path(place).expanduser() for place in _MIRRORS)
    yield from sorted(Path("/opt").glob("*/"))
