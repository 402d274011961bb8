"""One module an inference engine."""
