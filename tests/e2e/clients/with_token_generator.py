"""AWS's token generator and ours, in one second and with the same credentials: prints JSON."""

import json
import sys
from datetime import timedelta

import boto3
from sagemaker.core.token_generator import generate_token

from lmi_deploy.aws.bearer_token import bearer_token

seconds = int(sys.argv[1])
theirs, again = "", "-"
while theirs != again:  # the second passed between them
    theirs = generate_token(region="us-east-1", expiry=timedelta(seconds=seconds))
    ours = bearer_token(boto3.Session(region_name="us-east-1"), seconds).value
    again = generate_token(region="us-east-1", expiry=timedelta(seconds=seconds))
print(json.dumps({"theirs": theirs, "ours": ours}))
