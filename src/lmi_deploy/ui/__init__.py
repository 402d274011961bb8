"""The only code that formats or prints."""
