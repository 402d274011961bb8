"""Python environments for workers, and DJL's Python engine."""
