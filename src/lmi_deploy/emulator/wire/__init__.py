"""AWS over HTTP: signatures, requests checked against botocore's service models, answers in their shapes."""
