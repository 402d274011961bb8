"""What the hosting service does behind an endpoint: fetch, lay out, start, ping, replace, end."""
