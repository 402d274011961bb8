"""The sources of model files: the Hub, a local folder, an S3 prefix."""
