"""AWS over HTTP: signatures, requests checked against botocore's service models, and formatted responses."""
