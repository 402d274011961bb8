"""Whether other users of the machine can change a folder: its content is run as the server's user.

The rule is that of sshd's StrictModes (OpenSSH, `safe_path`): path and parents belong to the user or to root, and
others may not write them. There are two exceptions. A parent with the sticky bit, such as /tmp, may be writable by
all: other users can neither rename nor remove our files in it. And a group whose only member is the user may write,
as in Debian's sshd: many distributions give each user such a group, and an umask of 002.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

from lmi_deploy.server import error_responses
from lmi_deploy.server.log import Log

_ROOT = 0


def group_members(gid: int) -> frozenset[int]:
    """The users of a group, by either side of the database."""
    try:
        named = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        named = set()
    return frozenset(user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid or user.pw_name in named)


def unsafe_reason(folder: Path, *, uid: int, members: Callable[[int], frozenset[int]] = group_members) -> str:
    """Why other users may change the content of the resolved `folder`; empty if they cannot. OSError if it does not
    exist.
    """
    return _Check(uid, cache(members)).folder(folder)


async def require_safe(path: Path, log: Log, warning: str) -> Path:
    """`path`, resolved once: what is checked is what is used, even if a link changes later. `ErrorReply` and a warning
    in the log if other users may change it.
    """
    path = await asyncio.to_thread(path.resolve)
    if reason := await asyncio.to_thread(unsafe_reason, path, uid=os.getuid()):
        log.warn(warning, path=path, why=reason)
        raise error_responses.unsafe_folder(path, reason)
    return path


class _Check:
    """The check of one folder; the members of a group are looked up once."""

    def __init__(self, uid: int, members: Callable[[int], frozenset[int]]) -> None:
        self._trusted = {uid, _ROOT}
        self._members = members

    def folder(self, folder: Path) -> str:
        if reason := self._check_path(folder):
            return reason
        for root, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = Path(root, name)
                if reason := self._link(path) if path.is_symlink() else self._one(path, sticky=False):
                    return reason
        return ""

    def _link(self, link: Path) -> str:
        """A link's own permissions have no effect; those of its target and of the path to it do."""
        target = link.resolve()
        return self._check_path(target) if target.exists() else ""

    def _check_path(self, path: Path) -> str:
        """The path and all that is above it."""
        reasons = (self._one(one, sticky=one != path) for one in (path, *path.parents))
        return next((reason for reason in reasons if reason), "")

    def _one(self, path: Path, *, sticky: bool) -> str:
        found = path.lstat()
        mode = f"mode {stat.S_IMODE(found.st_mode):o}"
        if found.st_uid not in self._trusted:
            return f"{path} belongs to user {_name(found.st_uid)}"
        if sticky and found.st_mode & stat.S_ISVTX:
            return ""
        if found.st_mode & stat.S_IWOTH:
            return f"{path} can be written by every user ({mode})"
        if found.st_mode & stat.S_IWGRP and not self._members(found.st_gid) <= self._trusted:
            return f"{path} can be written by its group ({mode}, group {found.st_gid})"
        return ""


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
