"""Weights on their way into a bucket: moved once, verified, resumed; and looked after once they lie there."""
