"""Order and effects, over ports."""
