"""vLLM's own server, in AWS's plain vLLM images."""
