"""Which models the embedded server serves, and with which properties."""
