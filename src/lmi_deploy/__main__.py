"""`python -m lmi_deploy`: the command `lmi`."""

from __future__ import annotations

from lmi_deploy.cli import main

if __name__ == "__main__":
    main()
