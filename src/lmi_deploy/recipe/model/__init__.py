"""The recipe, declared once: every key with its type, meaning and example."""
