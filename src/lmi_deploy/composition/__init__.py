"""The only place that constructs adapters."""
