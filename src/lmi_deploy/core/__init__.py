"""The nouns of the house: plain frozen dataclasses and pure functions, no vendor."""
