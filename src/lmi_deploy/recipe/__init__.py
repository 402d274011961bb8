"""The language of recipes: its keys, how they are read and checked."""
