"""Transformers with accelerate, in an LMI image or on this machine."""
