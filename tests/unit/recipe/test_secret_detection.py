"""Secrets are recognised by name and by form; a name that only resembles one is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lmi_deploy.catalog.options as options
from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.recipe.secret_detection import names_secret, secret_in

SECRETS = """
HF_TOKEN TOKEN GITHUB_TOKEN HUGGING_FACE_HUB_TOKEN AWS_SESSION_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID
SECRET CLIENT_SECRET DB_PASSWORD PGPASSWORD REDIS_PASSWD PASSWORD KEY API_KEY OPENAI_API_KEY WANDB_KEY apiKey X_APIKEY
PRIVATE_KEY SSH_PRIVATE_KEY SIGNING_KEY ENCRYPTION_KEY SMTP_PASS GITHUB_PAT CREDENTIALS GOOGLE_CREDENTIALS SECRET_VALUE
TOKEN_2 authToken ACCESSTOKEN DB_PWD APP_PWD AZURE_STORAGE_CONNECTION_STRING SLACK_BOT_TOKEN hf_token
"""
HARMLESS = """
TOKENIZERS_PARALLELISM MAX_TOKENS MAX_NEW_TOKENS TOKENIZER TOKENIZER_MODE MAX_TOKEN TOKEN_LIMIT PAD_TOKEN
EOS_TOKEN_ID EOS_TOKEN SECRET_NAME DB_SECRET_ARN TOKEN_FILE HF_TOKEN_PATH PASSWORD_FILE KEYSPACE MONKEY KEYBOARD PWD
PUBLIC_KEY SORT_KEY S3_KEY CACHE_KEY KEY_PREFIX KMS_KEY KMS_KEY_ID COMPASS BYPASS PATH PASSES PATTERN OMP_NUM_THREADS
AUTHOR COST_CENTER NCCL_DEBUG SSL_KEYFILE SECRETARY VLLM_USE_V1 PYTHONPATH AWS_REGION
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_secret_name_is_recognised(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", HARMLESS.split())
def test_harmless_name_is_not_a_secret(name: str) -> None:
    assert not names_secret(name)


def test_only_hf_token_among_all_options_is_a_secret() -> None:
    table = json.loads(Path(options.__file__).with_name("options.json").read_text(encoding="utf-8"))
    names = _keys(table) | set(vllm_arguments.argument_spans())
    assert {name for name in names if names_secret(name)} == {"hf_token"}


def _keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(key for item in value.values() for key in _keys(item))}
    if isinstance(value, list):
        return {word for item in value for word in ([item] if isinstance(item, str) else _keys(item))}
    return set()


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("hf_" + "A" * 34, "token"),
        ("AKIAIOSFODNN7EXAMPLE", "token"),
        ("ghp_" + "a" * 36, "token"),
        ("sk-proj-" + "a1" * 20, "token"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", "token"),
        ("postgres://app:pw@db.example/x", "password"),
        ("https://:pw@hub.example", "password"),
        ("https://hub.example/x?a=1&token=abc", "query"),
        ("https://hooks.slack.com/services/T000/B000/XXXX", "webhook"),
        ("https://discord.com/api/webhooks/123/abc", "webhook"),
        ("https://acme.webhook.office.com/webhookb2/abc", "webhook"),
        ("https://hooks.slack.com/docs", ""),
        ("0123456789abcdef0123456789abcdef01234567", ""),
        ("https://hub.example/x?a=1", ""),
        ("https://user@hub.example", ""),
        ("redis://db:6379/0", ""),
        ("a:b@c", ""),
        ("sk-learn", ""),
        ("risk-assessment-of-the-whole-company-2026", ""),
        ("max_tokens=5", ""),
    ],
)
def test_secret_is_recognised_by_its_form(value: str, what: str) -> None:
    assert bool(secret_in(value)) == bool(what)
    assert what in secret_in(value)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("WANDB", True),
        ("TRACKING", True),
        ("GIT_COMMIT", False),
        ("MODEL_REVISION", False),
        ("IMAGE_SHA1", False),
        ("BUILD_ID", False),
    ],
)
def test_key_of_40_digits_is_recognised_unless_it_is_a_commit(name: str, *, is_secret: bool) -> None:
    assert bool(secret_in("0123456789abcdef0123456789abcdef01234567", name)) == is_secret
    assert not secret_in("0123456789abcdef", name)
