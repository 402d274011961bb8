"""Ahead-of-time compiled TorchScript on Inferentia 1, in Hugging Face's Neuron image."""
