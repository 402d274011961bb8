"""Runtime container: docker, podman or finch."""
