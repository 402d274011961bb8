"""T5 from PyTorch to two ONNX graphs to two TensorRT engines, as Triton serves them: `python compile.py --model DIR
--output DIR`, run by `lmi compile`.

The graphs are made on any machine, and compared with PyTorch's own answers. A TensorRT engine is for one kind of GPU
and one version of TensorRT: both are built where the package `tensorrt` or the program `trtexec` is, so in the image
that serves them. There the script also packs the Python environment of the tokenizer, for the same reason.
The tensors have the names that optimum's export gives them; there is no cache of keys and values.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

PARTS = ("encoder", "decoder")
ENVIRONMENT = "environment.tar.gz"
TOLERANCE = 1e-3
OPSET = 20
"""The newest that the parser of TensorRT 10.4 (release 24.09) knows."""
GRAPHS = (".onnx", ".pt", ".pth", ".h5", ".msgpack", ".ot", ".tflite", ".gguf", ".ckpt", ".bin")


def load(model_dir):
    import torch
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM.from_pretrained(
        model_dir, attn_implementation="eager", dtype=torch.float32
    ).eval()


def parts(model):
    """Both as modules: their inputs by name in order, and the name of the output."""
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.get_encoder()

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, encoder_attention_mask, encoder_hidden_states):
            return self.model(
                decoder_input_ids=input_ids,
                encoder_outputs=(encoder_hidden_states,),
                attention_mask=encoder_attention_mask,
                use_cache=False,
            ).logits

    return {
        "encoder": (Encoder().eval(), ("input_ids", "attention_mask"), "last_hidden_state"),
        "decoder": (
            Decoder().eval(),
            ("input_ids", "encoder_attention_mask", "encoder_hidden_states"),
            "logits",
        ),
    }


def shapes(options, hidden):
    """By part and tensor: (smallest, usual, largest). Inputs are padded to a multiple of 8."""
    rows = (1, min(8, options.batch), options.batch)
    read = (8, min(16, options.max_input), options.max_input)
    written = (1, min(11, options.max_output), options.max_output)
    text = [(row, length) for row, length in zip(rows, read, strict=True)]
    return {
        "encoder": {"input_ids": text, "attention_mask": text},
        "decoder": {
            "input_ids": [(row, length) for row, length in zip(rows, written, strict=True)],
            "encoder_attention_mask": text,
            "encoder_hidden_states": [(row, length, hidden) for row, length in zip(rows, read, strict=True)],
        },
    }


def example(shape, vocabulary, *, name):
    import torch

    if name.endswith("mask"):
        return torch.ones(shape, dtype=torch.long)
    return torch.randint(vocabulary, shape) if len(shape) == 2 else torch.randn(shape)


def export(part, ranges, output, vocabulary):
    """The graph, and the largest difference between its answers and PyTorch's."""
    import onnxruntime
    import torch

    module, names, result = part
    inputs = {
        name: example([max(2, size) for size in ranges[name][1]], vocabulary, name=name) for name in names
    }
    batch = torch.export.Dim("batch", max=ranges[names[0]][2][0])
    lengths = {
        size: torch.export.Dim(f"length_{size}", max=size) for size in {ranges[name][2][1] for name in names}
    }
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        str(output),
        input_names=list(names),
        output_names=[result],
        dynamic_shapes={name: {0: batch, 1: lengths[ranges[name][2][1]]} for name in names},
        dynamo=True,
        external_data=False,
        opset_version=OPSET,
    )
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    apart = 0.0
    for each in range(3):
        given = {name: example(ranges[name][each], vocabulary, name=name) for name in names}
        with torch.inference_mode():
            expected = module(*given.values())
        answered = session.run([result], {name: tensor.numpy() for name, tensor in given.items()})[0]
        apart = max(apart, float((torch.from_numpy(answered) - expected).abs().max()))
    if not apart <= TOLERANCE:
        raise SystemExit(f"{output.name}: {apart:.2g} apart from PyTorch; at most {TOLERANCE} is allowed")
    return apart


def build(graph, ranges, dtype):
    """The engine beside the graph, for the GPU of this machine."""
    plan = graph.with_suffix(".plan")
    if shutil.which("trtexec"):
        return build_with_trtexec(graph, plan, ranges, dtype)
    import tensorrt as trt

    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, trt.Logger(trt.Logger.WARNING))
    if not parser.parse(graph.read_bytes()):
        raise SystemExit("\n".join(str(parser.get_error(number)) for number in range(parser.num_errors)))
    config = builder.create_builder_config()
    if dtype == "fp16":
        config.set_flag(trt.BuilderFlag.FP16)
    profile = builder.create_optimization_profile()
    for name, (least, usual, most) in ranges.items():
        profile.set_shape(name, least, usual, most)
    config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise SystemExit(f"TensorRT could not build {plan.name}; its messages are above")
    plan.write_bytes(engine)


def build_with_trtexec(graph, plan, ranges, dtype):
    argv = ["trtexec", f"--onnx={graph}", f"--saveEngine={plan}", *(["--fp16"] if dtype == "fp16" else [])]
    for place, flag in enumerate(("--minShapes", "--optShapes", "--maxShapes")):
        sizes = (f"{name}:{'x'.join(map(str, found[place]))}" for name, found in ranges.items())
        argv.append(f"{flag}={','.join(sizes)}")
    done = subprocess.run(argv, check=False)
    if done.returncode:
        raise SystemExit(f"trtexec ended with status {done.returncode}; its messages are above")


def copy_checkpoint(model_dir, output):
    """Config, tokenizer and safetensors as they are: Triton's Python models read the first two."""
    for path in sorted(model_dir.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix not in GRAPHS:
            shutil.copyfile(path, output / path.name)


def pack_environment(output, packages):
    """What EXECUTION_ENV_PATH of Triton's Python backend names: bin/activate, which Triton sources, and packages for
    the Python that is the image's own.
    """
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        version = sysconfig.get_python_version()
        site = home / "lib" / f"python{version}" / "site-packages"
        install = ["--target", str(site), *packages]
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-cache-dir", "-q", *install], check=True)
        (home / "bin").mkdir()
        base = Path(sys.base_prefix) / "bin" / f"python{version}"
        (home / "bin" / "python3").symlink_to(base)
        (home / "bin" / "python").symlink_to("python3")
        (home / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        (home / "bin" / "activate").write_text(
            'VIRTUAL_ENV="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"\n'
            'export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"\n'
        )
        with tarfile.open(output, "w:gz") as packed:
            for path in sorted(home.iterdir()):
                packed.add(path, path.name)


def arguments():
    given = argparse.ArgumentParser(description="T5 for Triton: ONNX, and TensorRT where it is.")
    given.add_argument("--model", type=Path, required=True, help="folder of the checkpoint")
    given.add_argument("--output", type=Path, required=True, help="folder of what Triton serves")
    given.add_argument("--batch", type=int, default=16, help="the largest; as options.max_batch_size")
    given.add_argument(
        "--max-input", type=int, default=64, help="as options.max_input_length; a multiple of 8"
    )
    given.add_argument("--max-output", type=int, default=32, help="as options.max_new_tokens")
    given.add_argument("--dtype", choices=("fp16", "fp32"), default="fp16", help="of the engines")
    given.add_argument("--environment", default="numpy==1.26.4 transformers==4.57.6 sentencepiece==0.2.3")
    options = given.parse_args()
    if options.max_input < 8 or options.max_input % 8 or options.max_output < 2 or options.batch < 2:
        given.error("--max-input must be a multiple of 8, --max-output and --batch at least 2")
    return options


def main():
    options = arguments()
    import torch

    torch.manual_seed(0)
    options.output.mkdir(parents=True, exist_ok=True)
    model = load(options.model)
    ranges = shapes(options, model.config.d_model)
    for name, part in parts(model).items():
        graph = options.output / f"{name}.onnx"
        print(f"exporting the {name} of {options.model} to ONNX", flush=True)
        apart = export(part, ranges[name], graph, model.config.vocab_size)
        print(f"{graph.name}: at most {apart:.1g} apart from PyTorch", flush=True)
    copy_checkpoint(options.model, options.output)
    (options.output / "profile.json").write_text(json.dumps(ranges, indent=1))
    if not (shutil.which("trtexec") or importlib.util.find_spec("tensorrt")):
        print(
            "neither trtexec nor the package tensorrt here: no engines; Triton's backend onnxruntime runs the graphs"
        )
        return
    for name in PARTS:
        print(f"building {name}.plan ({options.dtype})", flush=True)
        build(options.output / f"{name}.onnx", ranges[name], options.dtype)
    print(f"packing {ENVIRONMENT}: {options.environment}", flush=True)
    pack_environment(options.output / ENVIRONMENT, options.environment.split())


if __name__ == "__main__":
    main()
