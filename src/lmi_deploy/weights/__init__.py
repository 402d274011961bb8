"""The transfer of weights into a bucket (once, verified, resumable) and their maintenance there."""
