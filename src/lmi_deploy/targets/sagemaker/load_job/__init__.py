"""The processing job whose machines send load to an endpoint."""
