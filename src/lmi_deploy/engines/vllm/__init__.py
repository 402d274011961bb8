"""vLLM in an LMI image."""
