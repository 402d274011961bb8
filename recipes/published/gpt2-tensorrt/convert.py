"""GPT-2 from PyTorch to ONNX to a TensorRT engine: `python convert.py --model openai-community/gpt2 --out engine`.

The ONNX step runs on any machine (torch, transformers, onnx, onnxscript). The TensorRT step needs the GPU that serves
the engine later, and the TensorRT of the container; without the package `tensorrt` the script ends after ONNX.
The profile: smallest (1, 1), usual (10, 21), largest (10, 42), as (batch, tokens); fp16; no KV cache.
"""

import argparse
import json
from pathlib import Path

PROFILE = {"min": [1, 1], "opt": [10, 21], "max": [10, 42]}


def export(name, out):
    """model.onnx: input_ids (batch, tokens) to logits (batch, tokens, vocabulary)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    class Logits(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, use_cache=False).logits

    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="eager").eval()
    batch, tokens = (
        torch.export.Dim("batch", max=PROFILE["max"][0]),
        torch.export.Dim("tokens", max=PROFILE["max"][1]),
    )
    example = torch.ones(PROFILE["opt"], dtype=torch.long)
    torch.onnx.export(
        Logits(model),
        (example,),
        str(out / "model.onnx"),
        input_names=["input_ids"],
        output_names=["logits"],
        dynamic_shapes={"input_ids": {0: batch, 1: tokens}},
        dynamo=True,
        external_data=False,
    )
    AutoTokenizer.from_pretrained(name).save_pretrained(out)
    model.config.save_pretrained(out)
    (out / "profile.json").write_text(json.dumps(PROFILE, indent=1))


def build(out, *, fp16):
    """model.plan, for the GPU of this machine."""
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse((out / "model.onnx").read_bytes()):
        raise SystemExit("\n".join(str(parser.get_error(n)) for n in range(parser.num_errors)))
    config = builder.create_builder_config()
    if fp16:
        config.set_flag(trt.BuilderFlag.FP16)
    profile = builder.create_optimization_profile()
    profile.set_shape("input_ids", PROFILE["min"], PROFILE["opt"], PROFILE["max"])
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("TensorRT could not build the engine; its messages are above")
    (out / "model.plan").write_bytes(plan)


def main():
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--model", default="openai-community/gpt2", help="a model of the Hub, or a folder")
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--fp32", action="store_true", help="the engine's numbers; fp16 by default")
    given.add_argument("--only-engine", action="store_true", help="use the model.onnx that is in --out")
    options = given.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.only_engine:
        export(options.model, options.out)
        print(f"{options.out}/model.onnx: {options.model}, profile {PROFILE}")
    try:
        import tensorrt  # noqa: F401
    except ImportError:
        if options.only_engine:
            raise SystemExit("no package tensorrt here: run it in the container") from None
        print(
            "no package tensorrt here: no engine was built. Run it in the container on the GPU that serves it"
        )
        return
    build(options.out, fp16=not options.fp32)
    print(f"{options.out}/model.plan: {'fp32' if options.fp32 else 'fp16'}")


if __name__ == "__main__":
    main()
