"""SageMaker runtime: invocations of an endpoint."""
