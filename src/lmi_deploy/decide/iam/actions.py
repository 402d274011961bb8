"""What belongs together whoever does it: the calls behind one thing that is done with S3 or CloudWatch Logs."""

from __future__ import annotations

from typing import Final

WRITE_OBJECTS: Final = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
"""Uploads in parts, gone on with, and looked at again."""
WRITE_LOGS: Final = (
    "logs:CreateLogGroup",
    "logs:CreateLogStream",
    "logs:DescribeLogStreams",
    "logs:PutLogEvents",
)
