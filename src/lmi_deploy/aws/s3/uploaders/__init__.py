"""External programs that upload files to S3."""
