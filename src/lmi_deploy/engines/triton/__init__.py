"""Triton in SageMaker's own image of it."""
