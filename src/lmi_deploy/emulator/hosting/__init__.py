"""The hosting service behind an endpoint: download, unpack, start, ping, replace, stop."""
