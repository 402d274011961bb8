"""lmi-dist."""
