"""Run by the serving environment's Python: `gguf_to_safetensors.py FILE.gguf OUT` writes a bfloat16 model folder.

It needs torch, transformers and gguf. Convert with the transformers that will serve: what version 5 writes,
4.57 cannot read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
from tokenizers import processors
from transformers import (  # type: ignore[import-not-found]
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2TokenizerFast,
)


def convert(gguf: Path, out: Path) -> None:
    """Dequantized weights in bfloat16, the tokenizer with its chat template, and no reference to the GGUF."""
    source = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = source.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(source.state_dict())
    model.save_pretrained(out, safe_serialization=True)
    _tokenizer(gguf, config).save_pretrained(out)
    (out / "tokenizer.model").unlink(
        missing_ok=True
    )  # save_pretrained may copy the whole GGUF under this name
    _forget(out / "config.json", "quantization_config", "_model_name_or_path", "_name_or_path")
    for file in out.iterdir():
        file.chmod(0o644)


def _tokenizer(gguf: Path, config: Any) -> Any:
    # A GGUF's tokenizer is read as Llama's: it would start every prompt with a token that only chats start with,
    # and it takes that token for the end of the text, too. The model was trained with GPT-2's kind.
    read = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    backend = read.backend_tokenizer
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    end = read.convert_ids_to_tokens(config.eos_token_id)
    return GPT2TokenizerFast(
        tokenizer_object=backend,
        bos_token=read.convert_ids_to_tokens(config.bos_token_id),
        eos_token=end,
        pad_token=end,
        unk_token=read.convert_ids_to_tokens(0),
        chat_template=read.chat_template,
        model_max_length=config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )


def _forget(path: Path, *keys: str) -> None:
    settings = json.loads(path.read_text())
    kept = {key: value for key, value in settings.items() if key not in keys}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
