"""The state of deployments on this machine."""
