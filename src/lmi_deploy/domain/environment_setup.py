"""How a serving environment is made, where a list of packages for lmi's own Python is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import digest_tag

Repair = Literal["optional-glibcxx", "vllm-distribution"]
"""A change to installed files; what each does is in `runtimes/environments/package_patches.py`."""


@digest_tag("EnvironmentSetup")
@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSetup:
    """The default is an environment on lmi's own Python, with the packages as they are."""

    python: str = ""
    """Version (`3.12`) of the interpreter; empty: that of lmi."""
    overrides: tuple[str, ...] = ()
    """Requirements (PEP 508) that replace what the packages ask for."""
    repairs: tuple[Repair, ...] = ()
    """Done in this order after the installation."""
    check: str = ""
    """A Python statement that must run in it at the end; empty: none."""
    size: int = 0
    """Bytes on disk, as measured; 0: estimated from the packages."""


PLAIN = EnvironmentSetup()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSetup:
    """How an engine runs on one machine outside an image."""

    packages: tuple[str, ...]
    """The requirements of the worker's environment, exact (PEP 508) and sorted, before the recipe's own."""
    setup: EnvironmentSetup = PLAIN
    variables: Pairs = ()
    """Of the server; the recipe's replace them."""
    notices: tuple[str, ...] = ()
    """What the user should know before agreeing to the plan."""
