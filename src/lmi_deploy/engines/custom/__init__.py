"""The user's own model.py."""
