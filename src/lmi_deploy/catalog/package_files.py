"""Where the files that travel with the package are: in the wheel, or in the checkout of an editable install."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def templates() -> Path:
    """The folder of our templates."""
    return _folder("templates")


def recipes() -> Path:
    """The folder of our recipes."""
    return _folder("recipes")


def stand_ins() -> Path:
    """The folder of stand-ins for engines that do not run on this machine."""
    return _folder("stand_ins")


def docs() -> Path:
    """The folder of the documentation's pages."""
    return _folder("docs")


def _folder(name: str) -> Path:
    shipped = _PACKAGE / f"_{name}"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / name
