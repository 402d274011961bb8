"""A compiled encoder on NeuronCores of Inferentia 1: question answering and text classification.

For SageMaker's Hugging Face inference toolkit (Python 3.7). The folder LMI_MODEL_PATH contains the tokenizer,
config.json, `model.neuron.pt` (TorchScript that torch.neuron.trace compiled) and `neuron.json`: `task`, `batch_size`,
`sequence_length`, `cores`. The compiled graph has one batch size and one length: texts are padded to them, and a longer
list is cut into batches.
"""

import json
import os

GRAPH = "model.neuron.pt"
SETTINGS = "neuron.json"
MOST_ANSWER_TOKENS = 30


def take_core_group(environ):
    """NEURONCORE_GROUP_SIZES names the groups of all processes; each process of a Neuron runtime since 1.16 reserves
    its own, by NEURON_RT_NUM_CORES. Returns the number of cores of this process.
    """
    groups = [int(size) for size in environ.pop("NEURONCORE_GROUP_SIZES", "1").split(",")]
    environ["NEURON_RT_NUM_CORES"] = str(groups[0])
    return groups[0]


CORES = take_core_group(os.environ)

import torch
import torch_neuron  # noqa: F401  registers the operators of the compiled graph
from transformers import AutoConfig, AutoTokenizer


class BadRequest(ValueError):
    pass


class Model:
    def __init__(self, folder):
        with open(os.path.join(folder, SETTINGS)) as file:
            self.settings = json.load(file)
        compiled = self.settings["cores"]
        if compiled != CORES:
            raise RuntimeError(
                "the model was compiled for %d NeuronCores, but this process has %d: compile it with "
                "--neuroncore-pipeline-cores %d, or set tensor_parallel_degree: %d"
                % (compiled, CORES, CORES, compiled)
            )
        self.task = os.environ.get("LMI_TASK") or self.settings["task"]
        if self.task != self.settings["task"]:
            raise RuntimeError("the model was compiled for %s, not %s" % (self.settings["task"], self.task))
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.labels = AutoConfig.from_pretrained(folder).id2label
        self.graph = torch.jit.load(os.path.join(folder, GRAPH)).eval()

    def run(self, firsts, seconds):
        """One tuple of rows per text, in batches of exactly the compiled size."""
        size, length = self.settings["batch_size"], self.settings["sequence_length"]
        for start in range(0, len(firsts), size):
            batch = firsts[start : start + size]
            pairs = seconds[start : start + size] if seconds else None
            count = len(batch)
            batch = batch + [batch[-1]] * (size - count)
            pairs = pairs + [pairs[-1]] * (size - count) if pairs else None
            # The question stays whole; only the context is cut.
            cut = "only_second" if self.task == "question-answering" else True
            encoded = self.tokenizer(
                batch, pairs, padding="max_length", truncation=cut, max_length=length, return_tensors="pt",
                return_offsets_mapping=True,
            )
            names = ("input_ids", "attention_mask", "token_type_ids")
            missing = torch.zeros_like(encoded["input_ids"])
            with torch.no_grad():
                outputs = self.graph(*[encoded.get(name, missing) for name in names])
            for row in range(count):
                yield encoded, row, [output[row] for output in outputs]


def model_fn(model_dir):
    return Model(os.environ.get("LMI_MODEL_PATH") or model_dir)


def input_fn(body, content_type):
    if not str(content_type).startswith("application/json"):
        raise BadRequest("the content type must be application/json, not %s" % content_type)
    try:
        return json.loads(body)
    except ValueError as reason:
        raise BadRequest("invalid JSON: %s" % reason)


def predict_fn(data, model):
    if not isinstance(data, dict) or "inputs" not in data:
        raise BadRequest("send {\"inputs\": ...}")
    inputs = data["inputs"]
    several = isinstance(inputs, list)
    items = inputs if several else [inputs]
    if not items:
        raise BadRequest("inputs is empty")
    answer = answers if model.task == "question-answering" else labels
    found = answer(model, items)
    return found if several else found[0]


def output_fn(prediction, accept):
    return json.dumps(prediction)


def labels(model, items):
    """The labels of each text (or pair), best first."""
    firsts, seconds = [], []
    for item in items:
        text = item.get("text") if isinstance(item, dict) else item
        pair = item.get("text_pair", "") if isinstance(item, dict) else ""
        if not isinstance(text, str) or not isinstance(pair, str):
            raise BadRequest("each input must be a text, or {\"text\": ..., \"text_pair\": ...}")
        firsts.append(text)
        seconds.append(pair)
    found = []
    for _, _, rows in model.run(firsts, seconds if any(seconds) else None):
        scores = torch.softmax(rows[0].float(), -1).tolist()
        each = [{"label": model.labels[n], "score": score} for n, score in enumerate(scores)]
        found.append(sorted(each, key=lambda one: -one["score"]))
    return found


def answers(model, items):
    """The best span of each context."""
    questions, contexts = [], []
    for item in items:
        if not isinstance(item, dict) or not all(isinstance(item.get(k), str) for k in ("question", "context")):
            raise BadRequest("each input must be {\"question\": ..., \"context\": ...}")
        questions.append(item["question"])
        contexts.append(item["context"])
    found = []
    rows = model.run(questions, contexts)
    for context, (encoded, row, outputs) in zip(contexts, rows):
        found.append(best_span(context, encoded, row, outputs))
    return found


def best_span(context, encoded, row, outputs):
    second = [n for n, part in enumerate(encoded.sequence_ids(row)) if part == 1]
    if not second:
        return {"score": 0.0, "start": 0, "end": 0, "answer": ""}
    first = torch.softmax(outputs[0][second].float(), -1)
    last = torch.softmax(outputs[1][second].float(), -1)
    scores = torch.triu(first[:, None] * last[None, :]) - torch.triu(
        torch.ones(len(second), len(second)), MOST_ANSWER_TOKENS
    )
    best = int(scores.argmax())
    begin, end = best // len(second), best % len(second)
    offsets = encoded["offset_mapping"][row]
    start, stop = int(offsets[second[begin]][0]), int(offsets[second[end]][1])
    return {"score": float(scores[begin, end]), "start": start, "end": stop, "answer": context[start:stop]}
