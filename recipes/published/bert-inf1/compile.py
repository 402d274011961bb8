"""Compile an encoder for NeuronCores of Inferentia 1, by `lmi compile`: `python compile.py --model DIR --output DIR`.

Needs torch-neuron 1.9.1 and transformers 4.12.3, which the image that serves has, and no Inf1. The graph is for exactly
one batch size, sequence length and number of cores. `--cores 1` is the data-parallel layout, more is a pipeline.
The same file runs on Python 3.7.
"""

import argparse
import json
import shutil
from pathlib import Path

GRAPH, SETTINGS = "model.neuron.pt", "neuron.json"
WEIGHTS = (
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".ot",
    ".pt",
    ".pth",
    ".safetensors",
    ".tflite",
)
TASKS = ("question-answering", "text-classification")
TOLERANCE = 1e-3


def arguments():
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--model", type=Path, required=True, help="folder of the checkpoint")
    given.add_argument("--output", type=Path, required=True, help="folder of what the container serves")
    given.add_argument("--task", choices=TASKS, required=True)
    given.add_argument("--batch", type=int, default=1)
    given.add_argument("--sequence-length", type=int, default=128)
    given.add_argument("--cores", type=int, default=1, help="of one copy of the model")
    given.add_argument(
        "--device", choices=("neuron", "cpu"), default="neuron", help="cpu: to look at the graph"
    )
    return given.parse_args()


def traced(model, inputs, cores, device):
    import torch

    if device == "cpu":
        return torch.jit.trace(model, inputs)
    try:
        import torch_neuron  # noqa: F401  gives torch.neuron
    except ImportError:
        raise SystemExit(
            "no package torch_neuron here: compile in the image that serves (torch-neuron 1.9.1), or look at the "
            "graph with --device cpu"
        ) from None
    options = {"compiler_args": ["--neuroncore-pipeline-cores", str(cores)]} if cores > 1 else {}
    return torch.neuron.trace(model, inputs, **options)


def copy_small_files(model_dir, output):
    """Config and tokenizer as they are: the image's older transformers does not read what a newer one writes."""
    for path in sorted(model_dir.iterdir()):
        is_index = path.name.endswith(".index.json")
        if path.is_file() and not path.name.startswith(".") and path.suffix not in WEIGHTS and not is_index:
            shutil.copyfile(str(path), str(output / path.name))


def main():
    given = arguments()
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    torch.manual_seed(0)
    is_qa = given.task == "question-answering"
    kind = AutoModelForQuestionAnswering if is_qa else AutoModelForSequenceClassification
    model = kind.from_pretrained(str(given.model), torchscript=True).eval()
    shape = (given.batch, given.sequence_length)
    # input_ids, attention_mask, token_type_ids
    ids = torch.randint(model.config.vocab_size, shape)
    inputs = (ids, torch.ones(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long))
    print(f"compiling {given.task} for {given.cores} cores, batch {shape[0]}, {shape[1]} tokens", flush=True)
    graph = traced(model, inputs, given.cores, given.device)
    given.output.mkdir(parents=True, exist_ok=True)
    graph.save(str(given.output / GRAPH))
    if given.device == "cpu":
        compare(model, torch.jit.load(str(given.output / GRAPH)), inputs)
    copy_small_files(given.model, given.output)
    settings = {
        "task": given.task,
        "batch_size": given.batch,
        "sequence_length": given.sequence_length,
        "cores": given.cores,
    }
    (given.output / SETTINGS).write_text(json.dumps(settings, indent=1))


def compare(model, graph, inputs):
    """A graph for Neuron runs on Neuron alone; one for a CPU must answer as the model does."""
    import torch

    with torch.no_grad():
        pairs = zip(model(*inputs), graph(*inputs))  # noqa: B905  Python 3.7 has no strict
        apart = max(float((expected - answered).abs().max()) for expected, answered in pairs)
    if not apart <= TOLERANCE:
        raise SystemExit(f"the graph is {apart:.2g} apart from PyTorch; at most {TOLERANCE} is allowed")
    print(f"{GRAPH}: at most {apart:.1g} apart from PyTorch", flush=True)


if __name__ == "__main__":
    main()
