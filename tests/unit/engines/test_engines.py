"""What an engine chooses for a recipe: handler, packages, serving.properties, probe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from lmi_deploy.catalog.options import TEMPLATE_OPTIONS
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import image_type
from lmi_deploy.domain.recipe_keys import Handler, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
OURS = HandlerSpec(entry_point="model.py", template="text-generation")
BUILTIN = HandlerSpec(entry_point=djl_huggingface.MODULE, template=None)


def test_engines_are_registered_under_their_own_names() -> None:
    assert {name: module.name for name, module in ENGINES.items()} == {name: name for name in ENGINES}


@pytest.mark.parametrize("template", [each for module in ENGINES.values() for each in module.templates])
def test_every_template_exists(template: str) -> None:
    assert (TEMPLATES / template / "model.py").is_file()


def test_default_handler_is_our_template_where_one_exists() -> None:
    assert accelerate.ENGINE.handler(Handler(), "text-generation") == OURS
    assert accelerate.ENGINE.handler(Handler(builtin=djl_huggingface.MODULE), "text-generation") == BUILTIN
    assert accelerate.ENGINE.handler(Handler(), None) == BUILTIN
    for task in get_args(Task):
        chosen = accelerate.ENGINE.handler(Handler(), task)
        assert chosen.template == (task if task in accelerate.ENGINE.templates else None)
    assert accelerate.ENGINE.handler(Handler(file="x.py"), None) == HandlerSpec(
        entry_point="model.py", template=None
    )


def test_options_of_every_template_are_known() -> None:
    assert tuple(TEMPLATE_OPTIONS) == accelerate.ENGINE.templates


def test_unknown_template_and_builtin_handler_of_custom_engine_are_refused() -> None:
    with pytest.raises(Unresolvable, match="no template chat") as caught:
        accelerate.ENGINE.handler(Handler(template="chat"), None)
    assert "text-generation" in caught.value.hint
    with pytest.raises(Unresolvable, match=r"handler\.builtin: engine custom"):
        custom.ENGINE.handler(Handler(builtin=djl_huggingface.MODULE), None)


def test_packages_are_pinned_sorted_and_minimal() -> None:
    for engine, handler in (
        *((accelerate.ENGINE, handler) for handler in (OURS, BUILTIN)),
        (custom.ENGINE, OURS),
    ):
        packages = engine.packages(handler)
        assert list(packages) == sorted(packages)
        assert all(re.fullmatch(r"[a-z]+==[0-9.]+", package) for package in packages)
    assert set(accelerate.ENGINE.packages(OURS)) < set(accelerate.ENGINE.packages(BUILTIN))


def test_properties_of_our_handler() -> None:
    assert accelerate.ENGINE.properties(
        EngineInputs(OURS, (), task="text-generation", tensor_parallel_degree=1)
    ) == (
        ("engine", "Python"),
        ("option.entryPoint", "model.py"),
        ("option.model_id", SLOT),
        ("option.rolling_batch", "disable"),
    )


def test_several_devices_use_device_map_auto() -> None:
    found = dict(
        accelerate.ENGINE.properties(EngineInputs(OURS, (), task="text-generation", tensor_parallel_degree=4))
    )
    assert (found["option.tensor_parallel_degree"], found["option.device_map"]) == ("4", "auto")


def test_options_replace_default_properties_in_place() -> None:
    options = (("dtype", "bf16"), ("entryPoint", "other.py"))
    found = accelerate.ENGINE.properties(EngineInputs(OURS, options, task=None, tensor_parallel_degree=1))
    assert found[1] == ("option.entryPoint", "other.py")
    assert found[-1] == ("option.dtype", "bf16")
    assert len(dict(found)) == len(found)


def test_builtin_handler_gets_its_task_and_no_rolling_batch() -> None:
    found = dict(
        accelerate.ENGINE.properties(
            EngineInputs(BUILTIN, (), task="text2text-generation", tensor_parallel_degree=1)
        )
    )
    assert found["option.task"] == "text2text-generation"
    assert found["option.rolling_batch"] == "disable"


def test_async_handler_of_the_user_keeps_rolling_batch() -> None:
    options = (("async_mode", "true"),)
    assert "option.rolling_batch" not in dict(
        custom.ENGINE.properties(EngineInputs(OURS, options, task=None, tensor_parallel_degree=1))
    )
    assert "option.rolling_batch" in dict(
        custom.ENGINE.properties(EngineInputs(OURS, (), task=None, tensor_parallel_degree=1))
    )


def test_default_probe_depends_on_the_task() -> None:
    inference_request = accelerate.ENGINE.probe(OURS, "text-generation")
    assert inference_request is not None
    assert inference_request.prompt == "Say OK"
    answers = accelerate.ENGINE.probe(replace(OURS, template="question-answering"), "question-answering")
    assert answers is not None
    assert b"context" in (answers.body or b"")
    seen = accelerate.ENGINE.probe(replace(OURS, template="image-text-to-text"), "text-generation")
    assert seen is not None
    assert [image_type(image.data) for image in seen.images] == ["image/png"]
    assert accelerate.ENGINE.probe(BUILTIN, "question-answering") is None
    assert custom.ENGINE.probe(OURS, "text-generation") is None
