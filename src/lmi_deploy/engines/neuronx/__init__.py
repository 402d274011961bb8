"""Transformers NeuronX."""
