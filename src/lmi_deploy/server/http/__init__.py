"""The HTTP front end of the embedded server."""
