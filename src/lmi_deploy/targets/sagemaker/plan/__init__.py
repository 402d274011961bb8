"""What a deployment on SageMaker needs, as a plan."""
