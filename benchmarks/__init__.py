"""Each published figure, measured: `python -m benchmarks`."""
