"""DJL's own handler with the properties that we render and the requests that our codec accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.engine import EngineInputs
from tests.handlers.handler_worker import handle, serving, worker
from tests.support.sample_model import cached_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.landing]

BUILTIN = HandlerSpec(entry_point=djl_huggingface.MODULE, template=None)
PROMPT = InferenceRequest(prompt="Once upon", parameters={"max_tokens": 8, "temperature": 0})


def options(model: Path, given: Pairs = ()) -> dict[str, str]:
    """The rendered properties as the server passes them to the worker."""
    found = accelerate.ENGINE.properties(
        EngineInputs(BUILTIN, given, task="text-generation", tensor_parallel_degree=1)
    )
    return {key.removeprefix("option."): value.replace(SLOT, str(model)) for key, value in found}


def test_builtin_handler_answers_in_one_chunk(tmp_path: Path) -> None:
    tiny = cached_tiny_model(serving(BUILTIN))
    with worker(tmp_path, BUILTIN) as running:
        assert running.load(**options(tiny)).code == 204
        (chunk,) = handle(running, PROMPT, BUILTIN)
        assert chunk.text
        assert not chunk.text.startswith("Once upon")
        for body in (
            {"messages": [{"role": "user", "content": "Hi"}]},
            {"prompt": "Hi"},
            {"inputs": "Hi", "parameters": {"seed": 1}},
        ):
            assert running.invoke(body).code == 424


def test_builtin_handler_streams_with_enable_streaming(tmp_path: Path) -> None:
    tiny = cached_tiny_model(serving(BUILTIN))
    with worker(tmp_path, BUILTIN) as running:
        assert running.load(**options(tiny, (("enable_streaming", "huggingface"),))).code == 204
        chunks = handle(running, PROMPT, BUILTIN)
        assert len(chunks) > 1
        assert not any(chunk.error for chunk in chunks)
        assert not "".join(chunk.text for chunk in chunks).startswith("Once upon")
        (invalid,) = running.invoke({"inputs": "Hi", "parameters": {"seed": 1}}).lines
        assert isinstance(invalid["outputs"], str)
