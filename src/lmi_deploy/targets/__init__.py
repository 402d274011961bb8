"""Where an artifact runs."""
