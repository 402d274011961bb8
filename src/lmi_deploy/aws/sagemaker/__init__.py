"""The SageMaker API behind our ports."""
