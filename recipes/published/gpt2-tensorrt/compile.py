"""GPT-2 from PyTorch to ONNX to a TensorRT engine: `python compile.py --model DIR --output DIR`, run by `lmi compile`.

The ONNX graph is made on any machine, and compared with PyTorch's own answer. A TensorRT engine is for one kind of GPU
and one version of TensorRT: it is built where the package `tensorrt` is, so in the container that serves it.
The profile has three shapes (batch, tokens): smallest (1, 1), usual (10, 21), largest (10, 42). No KV cache.
"""

import argparse
import json
import shutil
from pathlib import Path

GRAPH, ENGINE, PROFILE = "model.onnx", "model.plan", "profile.json"
OPSET, IR = 17, 8
"""The newest that the parser of TensorRT 8.6 knows."""
TOLERANCE = 1e-3
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


def export(model_dir, output, profile):
    """model.onnx: input_ids (batch, tokens) to logits (batch, tokens, vocabulary)."""
    import torch
    from transformers import AutoModelForCausalLM

    class Logits(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, use_cache=False).logits

    model = AutoModelForCausalLM.from_pretrained(model_dir, attn_implementation="eager", dtype=torch.float32)
    logits = Logits(model).eval()
    most = profile["max"]
    if most[1] > model.config.n_positions:
        raise SystemExit(f"--max-tokens {most[1]}: this model has {model.config.n_positions} positions")
    example = torch.ones([max(2, size) for size in profile["opt"]], dtype=torch.long)
    sizes = {
        0: torch.export.Dim("batch", max=max(2, most[0])),
        1: torch.export.Dim("tokens", max=max(2, most[1])),
    }
    torch.onnx.export(
        logits,
        (example,),
        str(output / GRAPH),
        input_names=["input_ids"],
        output_names=["logits"],
        dynamic_shapes={"input_ids": sizes},
        dynamo=True,
        external_data=False,
        opset_version=OPSET,
    )
    lower(output / GRAPH)
    return logits


def lower(path):
    """Complete the conversion to OPSET: it leaves `num_outputs` on Split, which only says that the parts are equal."""
    import onnx

    graph = onnx.load(str(path))
    for node in graph.graph.node:
        kept = [each for each in node.attribute if (node.op_type, each.name) != ("Split", "num_outputs")]
        del node.attribute[:]
        node.attribute.extend(kept)
    graph.ir_version = IR
    onnx.checker.check_model(graph)
    onnx.save(graph, str(path))


def compare(logits, path, profile, vocabulary):
    """The largest difference between the graph's logits and PyTorch's, over the shapes of the profile."""
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    torch.manual_seed(0)
    apart = 0.0
    for shape in profile.values():
        ids = torch.randint(vocabulary, shape)
        with torch.inference_mode():
            expected = logits(ids)
        answered = torch.from_numpy(session.run(["logits"], {"input_ids": ids.numpy()})[0])
        apart = max(apart, float((answered - expected).abs().max()))
    if not apart <= TOLERANCE:
        raise SystemExit(
            f"{path.name}: its logits are {apart:.2g} apart from PyTorch's; at most {TOLERANCE} is allowed"
        )
    return apart


def build(output, profile, dtype):
    """model.plan, for the GPU of this machine."""
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse((output / GRAPH).read_bytes()):
        raise SystemExit("\n".join(str(parser.get_error(number)) for number in range(parser.num_errors)))
    config = builder.create_builder_config()
    if dtype == "fp16":
        config.set_flag(trt.BuilderFlag.FP16)
    shapes = builder.create_optimization_profile()
    shapes.set_shape("input_ids", profile["min"], profile["opt"], profile["max"])
    config.add_optimization_profile(shapes)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("TensorRT could not build the engine; its messages are above")
    (output / ENGINE).write_bytes(plan)


def copy_small_files(model_dir, output):
    """Config and tokenizer as they are: the container's older transformers does not read what a newer one writes."""
    for path in sorted(model_dir.iterdir()):
        is_index = path.name.endswith(".index.json")
        if path.is_file() and not path.name.startswith(".") and path.suffix not in WEIGHTS and not is_index:
            shutil.copyfile(path, output / path.name)


def arguments():
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--model", type=Path, required=True, help="folder of the checkpoint")
    given.add_argument("--output", type=Path, required=True, help="folder of what the container serves")
    given.add_argument("--batch", type=int, default=10)
    given.add_argument("--tokens", type=int, default=21, help="the usual length")
    given.add_argument("--max-tokens", type=int, default=42, help="the longest")
    given.add_argument("--dtype", choices=("fp16", "fp32"), default="fp16", help="of the engine")
    options = given.parse_args()
    if not 1 <= options.tokens <= options.max_tokens or options.batch < 1:
        given.error("1 <= --tokens <= --max-tokens and 1 <= --batch must hold")
    return options


def main():
    options = arguments()
    profile = {
        "min": [1, 1],
        "opt": [options.batch, options.tokens],
        "max": [options.batch, options.max_tokens],
    }
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"exporting {options.model} to ONNX", flush=True)
    logits = export(options.model, options.output, profile)
    apart = compare(logits, options.output / GRAPH, profile, logits.model.config.vocab_size)
    print(f"{GRAPH}: logits at most {apart:.1g} apart from PyTorch's", flush=True)
    copy_small_files(options.model, options.output)
    try:
        import tensorrt
    except ImportError:
        print(f"no package tensorrt here: no {ENGINE}; the server runs {GRAPH}", flush=True)
    else:
        print(f"building {ENGINE} ({options.dtype}) with TensorRT {tensorrt.__version__}", flush=True)
        build(options.output, profile, options.dtype)
    (options.output / PROFILE).write_text(json.dumps(profile, indent=1))


if __name__ == "__main__":
    main()
