"""The smaller services that a deployer uses beside SageMaker."""
