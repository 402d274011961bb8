"""Target sagemaker: endpoints of one AWS account."""
