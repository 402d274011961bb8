"""The worker processes of the embedded server, and their protocol."""
