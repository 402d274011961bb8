"""The lock in the bucket: acquired, renewed, its owner recognised, and checked before each changing request."""
