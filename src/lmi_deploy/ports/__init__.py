"""The interfaces that lmi requires from the outside: one Protocol per file."""
