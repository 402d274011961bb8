"""What runs a model folder on this machine."""
