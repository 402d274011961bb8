"""Compile an encoder for NeuronCores of Inferentia 1: `python compile.py --task question-answering --out compiled/qa`.

Runs on any x86 machine with torch-neuron 1.9.1 and transformers 4.12.3 (no Inf1 is needed). The graph is for exactly
one batch size, sequence length and number of cores. `--cores 1` is the data-parallel layout, more is a pipeline.
"""

import argparse
import json
from pathlib import Path

GRAPH = "model.neuron.pt"
MODELS = {
    "question-answering": "csarron/bert-base-uncased-squad-v1",
    "text-classification": "textattack/bert-base-uncased-MRPC",
}
"""Used without --model; both tasks run with any encoder that has such a head."""


def arguments():
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--task", choices=sorted(MODELS), required=True)
    given.add_argument("--model", help="a model of the Hub, or a folder")
    given.add_argument("--batch", type=int, default=1)
    given.add_argument("--sequence-length", type=int, default=128)
    given.add_argument("--cores", type=int, default=1, help="of one copy of the model")
    given.add_argument("--out", required=True)
    return given.parse_args()


def main():
    given = arguments()
    import torch
    import torch_neuron  # noqa: F401  gives torch.neuron
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer

    is_qa = given.task == "question-answering"
    kind = AutoModelForQuestionAnswering if is_qa else AutoModelForSequenceClassification
    name = given.model or MODELS[given.task]
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = kind.from_pretrained(name, torchscript=True).eval()
    example = torch.ones((given.batch, given.sequence_length), dtype=torch.long)
    options = {}
    if given.cores > 1:
        options["compiler_args"] = ["--neuroncore-pipeline-cores", str(given.cores)]
    # input_ids, attention_mask, token_type_ids
    graph = torch.neuron.trace(model, (example, example, torch.zeros_like(example)), **options)
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    graph.save(str(out / GRAPH))
    tokenizer.save_pretrained(given.out)
    model.config.save_pretrained(given.out)
    settings = {
        "task": given.task,
        "batch_size": given.batch,
        "sequence_length": given.sequence_length,
        "cores": given.cores,
    }
    (out / "neuron.json").write_text(json.dumps(settings, indent=1))
    print(f"{given.out}: {name}, batch {given.batch}, {given.cores} cores")


if __name__ == "__main__":
    main()
