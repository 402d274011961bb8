"""Property values, parsed as Java does, and the order of a Java HashMap."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

_JAVA_OPTIONS = ("JAVA_OPTS", "SAGEMAKER_MODEL_SERVER_VMARGS")


class InvalidSettings(Exception):
    """The model folder, or the server's own file, has settings that cannot be served."""


_INTEGER = re.compile(r"[+-]?[0-9]+")


def integer(key: str, text: str) -> int:
    """As Java's `Integer.parseInt` reads it: no blank before or after, no underscore, 32 bits."""
    if _INTEGER.fullmatch(text) and -(2**31) <= int(text) < 2**31:
        return int(text)
    blank = "; remove the space" if text != text.strip() else ""
    raise InvalidSettings(f'{key}={text}: For input string: "{text}"{blank}')


def parse_bool(text: str) -> bool:
    """As Java reads a truth."""
    return text.strip().lower() == "true"


def number(sources: Sequence[Mapping[str, str]], key: str, fallback: int, *aliases: str) -> int:
    """From the first source that states it, under its own name or an alias."""
    for name in (key, *aliases):
        for source in sources:
            if name in source:
                return integer(name, source[name])
    return fallback


def java_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """The `-Dname=value` arguments of Java, which is not used here: some of them change what a worker or a client
    sees.
    """
    words = [word for name in _JAVA_OPTIONS for word in shlex.split(environ.get(name, ""))]
    pairs = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def hash_order(keys: Collection[str]) -> list[str]:
    """The order in which a Java HashMap iterates its keys, inserted as given: handlers and clients see it."""
    size = 16
    while len(keys) > size * 0.75:
        size *= 2

    def bucket(text: str) -> int:
        code = 0
        for char in text:
            code = (31 * code + ord(char)) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (size - 1)

    return sorted(keys, key=bucket)
