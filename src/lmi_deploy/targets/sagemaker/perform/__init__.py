"""The actions of a plan for SageMaker, performed."""
