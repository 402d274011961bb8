"""The runtimes that serve a model folder on this machine."""
