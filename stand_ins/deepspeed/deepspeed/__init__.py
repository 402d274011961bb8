"""As much of DeepSpeed as a handler of one's own uses for inference: the model runs as transformers loaded it.

Not real: kernels, tensor parallelism, number types.
"""

import json
from typing import Any


class InferenceEngine:
    """What `init_inference` returns: the model under `module`, and its `generate`."""

    def __init__(self, model: Any) -> None:
        self.module = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.generate(*args, **kwargs)


def init_inference(model: Any, config: dict[str, Any] | None = None, **kwargs: Any) -> InferenceEngine:
    """`config` and `kwargs` are printed and have no effect."""
    given = {**(config or {}), **kwargs}
    print("DeepSpeed was started with", json.dumps(given, default=str, sort_keys=True), flush=True)
    return InferenceEngine(model)
