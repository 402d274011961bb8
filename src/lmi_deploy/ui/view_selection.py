"""The view that a command line selects."""

from __future__ import annotations

import sys

from lmi_deploy.ui.verbosity import VERBOSITY
from lmi_deploy.ui.view import View


def open_view(*, as_json: bool) -> View:
    """JSON Lines on stdout, or words for people."""
    if as_json:
        from lmi_deploy.ui.json_view import MachineView

        return MachineView(sys.stdout)
    from lmi_deploy.ui.text_view import human_view

    return human_view(VERBOSITY.get())
