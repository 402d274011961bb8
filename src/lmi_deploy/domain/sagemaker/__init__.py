"""Settings, actions, tags and the S3 layout of target sagemaker, as plain data."""
