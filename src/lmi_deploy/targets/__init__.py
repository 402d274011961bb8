"""The targets of an artifact."""
