"""The processing job that copies weights inside AWS."""
