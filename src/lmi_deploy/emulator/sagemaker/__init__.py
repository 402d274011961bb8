"""SageMaker's control plane: models, endpoint configurations, endpoints, tags."""
