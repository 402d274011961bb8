"""One outside thing a file; vendors are imported late and their errors translated."""
