"""Runtime `triton`: the server of the package nvidia-pytriton."""
