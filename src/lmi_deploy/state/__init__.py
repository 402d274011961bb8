"""What this machine keeps of deployments."""
