"""Does it fit."""
