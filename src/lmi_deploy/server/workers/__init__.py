"""The worker processes of the embedded server, and the protocol they speak."""
