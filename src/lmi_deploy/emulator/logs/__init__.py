"""CloudWatch Logs, as far as hosting writes and deployers read them."""
