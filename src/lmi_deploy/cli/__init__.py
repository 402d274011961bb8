"""One command a file: parse flags, call, exit."""
