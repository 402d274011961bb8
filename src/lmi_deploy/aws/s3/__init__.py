"""S3 behind the ports ObjectStore, Journal and Lock."""
