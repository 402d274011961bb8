"""`python -m lmi_deploy.cli`."""

from lmi_deploy.cli import main

main()
