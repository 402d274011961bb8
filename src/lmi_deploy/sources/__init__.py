"""Where model files come from: the Hub, a local folder, an S3 prefix."""
