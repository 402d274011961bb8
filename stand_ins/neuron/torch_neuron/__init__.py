"""In the place of AWS's torch_neuron: `torch.neuron.trace` traces for the CPU instead of compiling for NeuronCores.

What is checked as AWS's does: the compiler arguments that lmi uses. What is not: whether an operator exists on Neuron,
the memory of the cores, the time.
"""

import sys

import torch


def trace(model, example_inputs, *, compiler_args=None, strict=True, **options):
    """TorchScript for fixed shapes, as Neuron's compiler gives."""
    arguments = list(compiler_args or ())
    if arguments:
        name, *values = arguments
        if name != "--neuroncore-pipeline-cores" or len(values) != 1 or not 1 <= int(values[0]) <= 64:
            raise ValueError(f"neuron-cc: unknown arguments: {arguments}")
    return torch.jit.trace(model, example_inputs, strict=strict)


torch.neuron = sys.modules[__name__]
sys.modules["torch.neuron"] = torch.neuron
