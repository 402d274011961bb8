"""DJL's own asynchronous service of vLLM in our model server; only vLLM itself is a stand-in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from lmi_deploy.catalog.package_files import stand_ins
from lmi_deploy.domain.java_properties import write_line
from lmi_deploy.domain.recipe_keys import Handler
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.vllm import engine as vllm
from tests.support.running_server import RunningServer, serving

HANDLER = vllm.ENGINE.handler(Handler(), "text-generation")
_STAND_IN = stand_ins() / "vllm" / "vllm" / "__init__.py"
_TORCH = (
    "float32 = float16 = bfloat16 = int8 = None\nclass cuda:\n    device_count = staticmethod(lambda: 0)\n"
)
_OPTIONS = (("max_model_len", "4096"), ("model_loading_timeout", "60"))


def vllm_server(folder: Path, *options: tuple[str, str]) -> AbstractContextManager[RunningServer]:
    """The serving.properties of the engine, and the files that its image would contain."""
    written = vllm.ENGINE.properties(
        EngineInputs(HANDLER, (*_OPTIONS, *options), task="text-generation", tensor_parallel_degree=1)
    )
    slot = {"option.model_id": str(folder), "option.sessions_path": str(folder / "sessions")}
    lines = [write_line(key, value) for key, value in ({**dict(written), **slot}).items()]
    (folder / "serving.properties").write_text("\n".join(lines) + "\n")
    for package, source in (("vllm", _STAND_IN.read_text()), ("torch", _TORCH)):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(source)
    return serving(folder, environ={"AWS_DEFAULT_REGION": "us-east-1"})
