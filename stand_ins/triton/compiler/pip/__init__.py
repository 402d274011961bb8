"""In the place of pip, for a script that packs an environment."""
