"""Which recipe, which deployment: from what the user typed, or from what is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.core.recipe import Recipe, TargetName
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.errors import Interrupted, NoCredentials, UsageRefused

if TYPE_CHECKING:  # `lmi validate` has no use for the ports, and importing them is a third of its time
    from lmi_deploy.steps.deps import Deps

_SUFFIXES = (".yaml", ".yml")
_READ_LIMIT = 1_048_577


def read_recipe(
    path: str | None, *, overlay: str | None, sets: Sequence[str], deploying: bool = True
) -> Recipe:
    """Parse the recipe that was named, or the only one in the folder."""
    from lmi_deploy.decide.parse import parse
    from lmi_deploy.decide.reading import Purpose

    origin = path or _only_recipe()
    purpose = Purpose(deploying=deploying, unread=lambda name: _unread(Path(origin).parent / name))
    return parse(read(origin), origin, overlay=overlay, sets=sets, purpose=purpose)


def _unread(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as reason:
        return reason.strerror or "cannot be read"


def read(origin: str) -> bytes:
    """The file's bytes, no more than one past what a recipe may have; `-` is standard input.

    UsageRefused where it cannot be read: for whoever gets the exit code a recipe that is not there is a bad one.
    """
    try:
        if origin == "-":
            return sys.stdin.buffer.read(_READ_LIMIT)
        with Path(origin).open("rb") as file:
            return file.read(_READ_LIMIT)
    except OSError as reason:
        near = _recipes_here()
        hint = f"recipes here: {', '.join(near)}" if near else "`lmi init MODEL` writes one"
        raise UsageRefused(f"{origin}: {reason.strerror}", hint=hint) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the command line says of a deployment's place; empty where it says nothing."""

    target: TargetName | None = None
    region: str = ""


ANYWHERE = Where()


def ref_fields(ref: DeploymentRef) -> dict[str, str]:
    """Which deployment a result is about, for a program."""
    return {"deployment": ref.name, "target": ref.target, "account": ref.account, "region": ref.region}


def find_deployment(name: str | None, deps: Deps, where: Where = ANYWHERE) -> DeploymentRef:
    """By name or by recipe; the only one there is when nothing was said."""
    if name is None:
        return _only_deployment(deps, where)
    if name.endswith(_SUFFIXES):
        recipe = read_recipe(name, overlay=None, sets=(), deploying=False)
        region = where.region or recipe.endpoint.region or ""
        target, bucket = where.target or recipe.endpoint.target, recipe.endpoint.bucket or ""
        return DeploymentRef(name=recipe.name, target=target, region=region, bucket=bucket)
    return _by_name(name, deps, where)


def _by_name(name: str, deps: Deps, where: Where) -> DeploymentRef:
    """Among those known here; else where the command line says, else in the cloud, else here, where it is absent."""
    near = _in_our_account([ref for ref in known(deps, where) if ref.name == name], deps)
    if len(near) == 1:
        return near[0]
    if near:
        places = ", ".join(sorted(f"{ref.target} {ref.region} {ref.account}".strip() for ref in near))
        raise UsageRefused(f"{name}: known in {len(near)} places: {places}", hint="say --target or --region")
    if where.target or where.region:
        target = where.target or "sagemaker"
        return DeploymentRef(name=name, target=target, region=where.region)
    elsewhere = DeploymentRef(name=name, target="sagemaker")
    return elsewhere if _reachable(deps) else replace(elsewhere, target="local")


def _in_our_account(near: list[DeploymentRef], deps: Deps) -> list[DeploymentRef]:
    """Of several of one name those of the account that the credentials are of, and those that are here."""
    if len({ref.account for ref in near} - {""}) < 2:
        return near
    ours = [ref for ref in near if ref.account in ("", deps.cloud(ref.region).caller.account)]
    return ours or near


def _reachable(deps: Deps) -> bool:
    """Whether there is a cloud to look in: a machine without any credentials has its own deployments only.

    Credentials that are refused, or a network that is down, are errors: what cannot be looked at is not absent.
    """
    try:
        return "sagemaker" in deps.targets and bool(deps.cloud("").caller.account)
    except NoCredentials:
        return False


def known(deps: Deps, where: Where = ANYWHERE) -> tuple[DeploymentRef, ...]:
    """Every deployment of every target that can be listed from here."""
    return tuple(
        ref
        for target in deps.targets.values()
        for ref in target.known()
        if where.target in (None, ref.target) and where.region in ("", ref.region)
    )


def _only_deployment(deps: Deps, where: Where) -> DeploymentRef:
    here = known(deps, where)
    if len(here) == 1:
        return here[0]
    if not here and len(_recipes_here()) == 1:
        return find_deployment(_recipes_here()[0], deps, where)
    if not here:
        raise UsageRefused("which deployment? none is known here", hint="`lmi up RECIPE` makes one")
    names = ", ".join(ref.name for ref in here)
    raise UsageRefused(f"which deployment? {len(here)} are known here: {names}", hint="name one of them")


def _only_recipe() -> str:
    here = _recipes_here()
    if len(here) == 1:
        return here[0]
    if not here:
        raise UsageRefused("which recipe? there is none in this folder", hint="`lmi init MODEL` writes one")
    raise UsageRefused(
        f"which recipe? {len(here)} lie in this folder: {', '.join(here)}", hint="name one of them"
    )


def _recipes_here() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.suffix in _SUFFIXES and _is_recipe(path))


def _is_recipe(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"model_id:" in file.read(65536)
    except OSError:
        return False


def confirm(question: str, *, yes: bool, free: bool = False, kept: str = "nothing was changed") -> None:
    """Ask on a terminal; where there is none, the answer must have been given.

    Enter alone agrees only to what is `free`: what is billed or taken away wants a word. `kept` is what a refusal
    leaves as it was.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageRefused("there is no terminal to ask on", hint="add --yes to agree in advance")
    # Not click's own, of which some versions put a blank on stdout.
    sys.stderr.write(f"{question} {'[Y/n]' if free else '[y/N]'} ")
    sys.stderr.flush()
    ended: KeyboardInterrupt | None = None
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt as end:
        answer, ended = "", end
    if not answer:  # Ctrl-D or Ctrl-C: the cursor still stands behind the question
        sys.stderr.write("\n")
    word = answer.strip().lower()
    if word not in ("y", "yes") and not (free and answer and not word):
        raise Interrupted(f"you did not agree: {kept}", hint="run it again to agree") from ended
