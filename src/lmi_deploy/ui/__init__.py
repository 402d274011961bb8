"""The only code that formats or prints: stdout is the result, stderr the story."""
