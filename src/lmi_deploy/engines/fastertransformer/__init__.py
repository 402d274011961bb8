"""FasterTransformer."""
