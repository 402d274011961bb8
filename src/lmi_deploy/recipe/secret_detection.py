"""Detect secrets in a recipe: by the name of a key, or the form of a value."""

from __future__ import annotations

import re
from typing import Final

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET: Final = _words(
    "SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE CREDENTIAL CREDENTIALS APIKEY PASS PAT BEARER"
)
_SECRET_ENDINGS: Final = tuple(
    _words("PASSWORD PASSWD SECRET APIKEY ACCESSKEY SECRETKEY PRIVATEKEY AUTHTOKEN ACCESSTOKEN")
)
"""Of a word that its author did not divide."""
_OF_A_TOKENIZER: Final = _words(
    "PAD EOS BOS UNK STOP MASK SEP CLS END START IMAGE AUDIO VIDEO SPECIAL PLACEHOLDER THINK PER EACH FIRST NEXT "
    "LAST MAX MIN NEW"
)
"""`EOS_TOKEN` is a piece of text."""
_LOOKUP_WORDS: Final = _words(
    "PUBLIC PRIMARY FOREIGN PARTITION SORT CACHE HASH ROUTING GROUP PROJECT ISSUE LOOKUP INDEX DICT MAP JSON TAG LABEL "
    "OBJECT S KMS PREFIX INPUT OUTPUT MODEL PROMPT MESSAGE RESPONSE RESULT TEXT CONTENT"
)
"""`S3_KEY` is a location (its words: S, 3, KEY)."""
_ENCODED: Final = _words("VALUE TEXT STRING BASE64 B64 PLAIN PLAINTEXT")
"""`SECRET_VALUE` is a secret; `SECRET_NAME`, `_ARN`, `_FILE` are the location of one."""
_EXACT: Final = frozenset(("AWS_ACCESS_KEY_ID", "AWSACCESSKEYID", "DB_PWD"))
_VALUES: Final = re.compile(
    r"""\bhf_[A-Za-z0-9]{30,}\b            # Hugging Face
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b        # AWS access key id
    | \bgh[pousr]_[A-Za-z0-9]{36,}\b | \bgithub_pat_[A-Za-z0-9_]{22,}\b
    | \bglpat-[A-Za-z0-9_-]{20,}           # GitLab
    | \bsk-(?:[a-z]+-)*[A-Za-z0-9_]{20,}   # OpenAI, Anthropic and others
    | \bnvapi-[A-Za-z0-9_-]{40,} | \bAIza[0-9A-Za-z_-]{35}\b | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.   # JSON web token
    | -----BEGIN[ A-Z]*PRIVATE[ ]KEY-----""",
    re.VERBOSE,
)
_WEBHOOK: Final = re.compile(
    r"""https://(?:hooks\.slack\.com/(?:services|workflows|triggers)/\w
    | (?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/\w
    | [\w.-]+\.webhook\.office\.com/webhook)""",
    re.VERBOSE,
)
_HEX_KEY: Final = re.compile(r"[0-9a-f]{40}")
_OF_A_DIGEST: Final = _words(
    "COMMIT SHA SHA1 HASH DIGEST REVISION REV VERSION CHECKSUM ETAG GIT FINGERPRINT ID"
)
_PASSWORD_IN_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s?#@:]*:[^/\s?#@]+@", re.IGNORECASE)
_QUERY: Final = re.compile(
    r"[?&](?:token|access_token|api_?key|password|secret|sig|signature|x-amz-signature)=[^&\s]+",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Whether a variable, option or tag of this name contains a secret itself, not a location or a number."""
    words = [word.upper() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _ENCODED or words[-1].isdigit()):
        words.pop()
    if not words or name.upper() in _EXACT:
        return bool(words)
    if name.upper().endswith("CONNECTION_STRING"):
        return True
    *before, last = words
    previous = next((word for word in reversed(before) if not word.isdigit()), "")
    if last == "TOKEN":
        # `max_prompt_adapter_token` is a number.
        return previous not in _OF_A_TOKENIZER and words[0] != "MAX"
    if last == "KEY":
        return previous not in _LOOKUP_WORDS
    if last == "PWD":
        return bool(before)
    return last in _SECRET or last.endswith(_SECRET_ENDINGS)


def secret_in(value: str, name: str = "") -> str:
    """The part of a value that looks like a secret, in words; empty if there is none. `name`: of a variable; 40
    hexadecimal digits are a key (of Weights & Biases), if the name is not that of a commit or a digest.
    """
    if _VALUES.search(value):
        return "what looks like a token"
    if _WEBHOOK.search(value):
        return "a webhook's address, with which anyone can post"
    if (
        name
        and _HEX_KEY.fullmatch(value)
        and not _OF_A_DIGEST & {word.upper() for word in _WORD.findall(name)}
    ):
        return "what looks like a key of 40 hexadecimal digits"
    if _PASSWORD_IN_URL.search(value):
        return "a URL with a password"
    return "a URL with a token in its query" if _QUERY.search(value) else ""
