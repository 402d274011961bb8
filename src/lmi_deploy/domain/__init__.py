"""The value types of lmi: plain frozen dataclasses and pure functions, no vendor."""
