"""Target local: one server process on this machine."""
