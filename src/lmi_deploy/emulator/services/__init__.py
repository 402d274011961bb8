"""The smaller services that a deployer asks beside SageMaker."""
