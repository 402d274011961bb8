"""Random faults in responses: a header or a field removed or changed, a body truncated or replaced.

One seed is one sequence of faults. `done` lists them, so that a failure can be understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lmi_deploy.emulator.faults.rules import Call
from tests.support.proxy import Reply

PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome to the network</body></html>"
OTHERS: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [{}], {"x": 1})
_ELEMENT = re.compile(rb"<(\w+)>([^<]*)</\1>")


@dataclass
class RandomFaults:
    """Alters each response with this probability, by the seed."""

    seed: int
    chance: float = 0.06
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def __call__(self, call: Call, reply: Reply) -> Reply:
        if self._random.random() >= self.chance:
            return reply
        fault = self._random.choice(_FAULTS)
        altered, how = fault(self._random, reply)
        target = call.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.done.append(f"{call.method} {target or call.path}: {fault.__name__} {how}")
        return altered


def lose_header(random: Random, reply: Reply) -> tuple[Reply, str]:
    name = random.choice(sorted(reply.headers))
    kept = {key: value for key, value in reply.headers.items() if key != name}
    return Reply(reply.status, kept, reply.content), name


def change_header(random: Random, reply: Reply) -> tuple[Reply, str]:
    """Any except the length of the body, which would truncate it."""
    name = random.choice(sorted(set(reply.headers) - {"Content-Length"}) or ["X-Any"])
    value = random.choice(("", "x", "0", "-1", "a" * 300, reply.headers.get(name, "")[:-1]))
    return Reply(reply.status, {**reply.headers, name: value}, reply.content), f"{name}: {value[:20]!r}"


def lose_field(random: Random, reply: Reply) -> tuple[Reply, str]:
    return _with_field(random, reply, fail=True)


def change_field(random: Random, reply: Reply) -> tuple[Reply, str]:
    return _with_field(random, reply, fail=False)


def cut_off(random: Random, reply: Reply) -> tuple[Reply, str]:
    at = random.randrange(len(reply.content) + 1)
    return _with_body(reply, reply.content[:at]), f"after {at} of {len(reply.content)}"


def empty(random: Random, reply: Reply) -> tuple[Reply, str]:
    return _with_body(reply, b"", status=200), ""


def portal(random: Random, reply: Reply) -> tuple[Reply, str]:
    """The login page of a network, with none of AWS's headers."""
    headers = {"Content-Type": "text/html", "Content-Length": str(len(PAGE))}
    return Reply(200, headers, PAGE), ""


def flip(random: Random, reply: Reply) -> tuple[Reply, str]:
    if not reply.content:
        return reply, "nothing"
    at = random.randrange(len(reply.content))
    changed = bytes([reply.content[at] ^ (1 << random.randrange(8))])
    return _with_body(reply, reply.content[:at] + changed + reply.content[at + 1 :]), f"byte {at}"


_FAULTS: tuple[Callable[[Random, Reply], tuple[Reply, str]], ...] = (
    *(lose_header, change_header, lose_field, change_field, lose_field, change_field),
    *(cut_off, empty, portal, flip),
)


def _with_body(reply: Reply, content: bytes, *, status: int = 0) -> Reply:
    headers = {**reply.headers, "Content-Length": str(len(content))}
    return Reply(status or reply.status, headers, content)


def _with_field(random: Random, reply: Reply, *, fail: bool) -> tuple[Reply, str]:
    try:
        tree = json.loads(reply.content)
    except ValueError:
        return _with_element(random, reply, fail=fail)
    places = list(_places(tree))
    if not places:
        return reply, "nothing"
    owner, key = random.choice(places)
    if fail:
        del owner[key]
    else:
        owner[key] = random.choice(OTHERS)
    return _with_body(reply, json.dumps(tree).encode()), str(key)


def _places(node: Any) -> Any:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(pairs):
        yield node, key
        yield from _places(value)


def _with_element(random: Random, reply: Reply, *, fail: bool) -> tuple[Reply, str]:
    """Of XML: an element that contains only text."""
    found = list(_ELEMENT.finditer(reply.content))
    if not found:
        return reply, "nothing"
    hit = random.choice(found)
    text = random.choice((b"", b"x", b"-1", hit[2][:-1]))
    instead = b"" if fail else b"<%s>%s</%s>" % (hit[1], text, hit[1])
    content = reply.content[: hit.start()] + instead + reply.content[hit.end() :]
    return _with_body(reply, content), hit[1].decode()
