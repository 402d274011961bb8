"""The language of recipes: what may be written, how it is read and checked."""
