"""DJL's own Python engine, in the tool's cache where the tool puts it: every worker of the tests runs it."""

from __future__ import annotations

import os
from pathlib import Path

from lmi_deploy.composition.local import environments_at
from lmi_deploy.composition.user_folders import cache_folder
from lmi_deploy.domain.djl_serving import ENGINE_VERSION as VERSION

__all__ = ["VERSION", "cache_home", "engine_dir"]


def cache_home() -> Path:
    """Where the tool keeps what it downloads."""
    return cache_folder(os.environ)


def engine_dir() -> Path:
    """The folder with `djl_python_engine.py`; downloaded, verified and unpacked once."""
    environments = environments_at(os.environ)
    for _ in environments.install_engine(VERSION, key="engine"):
        pass
    return environments.engine(VERSION)
