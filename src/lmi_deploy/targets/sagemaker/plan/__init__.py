"""The plan of a deployment on SageMaker."""
