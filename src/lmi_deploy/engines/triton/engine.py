"""Triton in SageMaker's own image: text to text with dynamic batching, by transformers or by compiled models."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.package_files import templates as template_folder
from lmi_deploy.catalog.triton_options import OPTIONS, triton_value_mistake
from lmi_deploy.domain.deployment_artifact import MARKER, ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.engines.engine import Decoder, EngineInputs, InferenceEngine
from lmi_deploy.engines.jinja_templates import rendered
from lmi_deploy.engines.response_stream_decoder import read_json, response_decoder
from lmi_deploy.engines.template_handlers import without_conversation
from lmi_deploy.engines.triton.model_repository import COMPILED, MODEL, PARTS, TritonModel, models_of
from lmi_deploy.errors import Unresolvable

TEMPLATE: Final = "triton/text2text"
_FROM_RECIPE: Final = ("trust_remote_code", "trust_insecure_model_files")
"""Keys of the recipe that reach the handler as parameters."""


class Triton(InferenceEngine):
    name: ClassVar[Engine] = "triton"
    family: ClassVar[str] = "sagemaker-tritonserver"
    devices: ClassVar[tuple[Kind, ...]] = ("gpu", "cpu")
    local_runtimes: ClassVar[tuple[RuntimeName, ...]] = ("triton",)
    deliveries: ClassVar[tuple[Delivery, ...]] = ("mount", "artifact")
    """Triton downloads no model itself."""
    templates: ClassVar[tuple[str, ...]] = (TEMPLATE,)

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if engine.builtin or engine.template not in (None, TEMPLATE):
            given = f"builtin: {engine.builtin}" if engine.builtin else f"template: {engine.template}"
            raise Unresolvable(
                f"handler: engine triton has no {given}", hint="omit it, or write handler: {file: model.py}"
            )
        if engine.file:
            return HandlerSpec(entry_point=MODEL_PY, template=None)
        if task != "text2text-generation":
            raise Unresolvable(
                f"engine triton: lmi has no model.py for task {task or 'unknown'}",
                hint="use engine: accelerate, or write your own for Triton's Python backend: handler: {file: model.py}",
            )
        return HandlerSpec(entry_point=MODEL_PY, template=TEMPLATE)

    def packages(self, handler: HandlerSpec) -> tuple[str, ...]:
        """Triton's server as NVIDIA packs it for PyTriton: 2.51, with the Python backend alone. That backend ends at
        the first request with numpy 2.
        """
        return (
            "numpy==1.26.4",
            "nvidia-pytriton==0.7.0",
            "protobuf==6.33.6",
            "sentencepiece==0.2.3",
            "torch==2.13.0",
            "transformers==4.57.6",
        )

    def properties(self, chosen: EngineInputs) -> Pairs:
        """Every option, with its default where the recipe has none."""
        given = dict(chosen.options)
        settings = {key: given.get(key, option.default) for key, option in OPTIONS.items()}
        for key, value in settings.items():
            if key in given and (mistake := triton_value_mistake(key, value)):
                raise Unresolvable(f"options.{key}: {value} {mistake}", hint="correct it")
        return (*settings.items(), *((key, given.get(key, "false")) for key in _FROM_RECIPE))

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        """The model repository, and the file that completes it."""
        settings = dict(spec.engine.properties)
        _require_compiled(spec, settings["backend"])
        files = [file for model in models_of(settings) for file in _files(spec, model)]
        about = {
            "engine": self.name,
            "deployment": spec.name,
            "model": spec.model.model_id,
            "commit": spec.model.commit,
        }
        return (*files, ArtifactFile(MARKER, f"{json.dumps(about, indent=1)}\n".encode()))

    def environment(self, spec: EngineSpec) -> Pairs:
        """Read by `serve` of the image (docker/sagemaker/serve), which would log every request otherwise."""
        return (("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", MODEL), ("SAGEMAKER_TRITON_LOG_VERBOSE", "false"))

    def local_setup(self, spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
        backend = dict(spec.properties)["backend"]
        if backend in COMPILED:
            raise Unresolvable(
                f"options.backend: {backend} does not run on this machine: nvidia-pytriton has the Python backend "
                "alone",
                hint="add --set options.backend=python, which loads the checkpoint, or rehearse it with `lmi emulator`",
            )
        return LocalSetup(packages=spec.packages)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        return (
            InferenceRequest(prompt="translate English to German: OK", chat=False)
            if handler.template
            else None
        )

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        parameters = without_conversation(request)
        tensors = [_text("text", request.prompt)]
        if parameters:
            tensors.append(_text("parameters", json.dumps(parameters)))
        return {"inputs": tensors}

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        return response_decoder(head, full=_read_tensors, line=_read_tensors)


def _files(spec: Spec, model: TritonModel) -> tuple[ArtifactFile, ...]:
    """A folder of the repository. A version needs a file, because a prefix in S3 has no empty folders."""
    text = rendered("triton/config.pbtxt.jinja", deployment=spec.name, model=model)
    config = ArtifactFile(f"{model.name}/config.pbtxt", text.encode(), slot="json-string")
    if model.code:
        own = spec.inputs.model_py if spec.engine.handler.template is None else b""
        code = own or (template_folder() / TEMPLATE / model.code).read_bytes()
        return config, ArtifactFile(f"{model.name}/1/{MODEL_PY}", code)
    note = (
        "The compiled model is among the weights: config.pbtxt names it.\n"
        if model.file
        else "An ensemble.\n"
    )
    return config, ArtifactFile(f"{model.name}/1/README.txt", note.encode())


def _require_compiled(spec: Spec, backend: str) -> None:
    """Unresolvable if the weights lack a file that the backend runs; `lmi compile` makes those of a recipe that is not
    compiled yet.
    """
    if isinstance(spec.place, SageMakerPlace) and spec.place.compile is not None:
        return
    existing = {file.path for file in spec.weights.files}
    required = [f"{part}{COMPILED[backend]}" for part in PARTS] if backend in COMPILED else []
    packed = dict(spec.engine.properties)["execution_environment"]
    missing = [path for path in (*required, *([packed] if packed else [])) if path not in existing]
    if missing:
        raise Unresolvable(
            f"{spec.model.model_id}: no {' and no '.join(missing)} among the chosen files, which options need",
            hint="put the compiled files beside the tokenizer's, and name them in files.allow",
        )
    if backend in COMPILED and spec.engine.handler.template is None:
        raise Unresolvable(
            f"handler.file: backend {backend} runs compiled models, not your model.py",
            hint="omit handler.file, or set options.backend: python",
        )


def _text(tensor: str, value: str) -> dict[str, Any]:
    return {"name": tensor, "shape": [1, 1], "datatype": "BYTES", "data": [value]}


def _read_tensors(value: Any) -> Chunk:
    """The texts of a response of the KServe v2 protocol, a line each; any other JSON as it is."""
    outputs = value.get("outputs") if isinstance(value, dict) else None
    if not isinstance(outputs, list):
        return read_json(value)
    found = [each for each in outputs if isinstance(each, dict) and each.get("datatype") == "BYTES"]
    if len(found) != 1:
        return Chunk(text=json.dumps(outputs, ensure_ascii=False))
    return Chunk(text="\n".join(str(text) for text in found[0].get("data", ())))


ENGINE: Final = Triton()
