"""lmi: from a recipe to an answering large-model endpoint, and back to nothing."""

__version__ = "0.1.0"
