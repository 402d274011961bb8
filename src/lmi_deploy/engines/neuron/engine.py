"""Encoders on Inferentia 1 (Inf1): TorchScript that Neuron compiled before, in Hugging Face's Neuron image.

The image's server (SageMaker's Hugging Face inference toolkit) runs `code/inference.py` in as many processes as
SAGEMAKER_MODEL_SERVER_WORKERS says. NEURONCORE_GROUP_SIZES divides the NeuronCores: a group for each copy of the model.
In layout `data` each copy has one core; in layout `pipeline` the model was compiled with `--neuroncore-pipeline-cores
N` and has N cores.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.package_files import templates as template_files
from lmi_deploy.domain.deployment_artifact import SLOT, ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.engine import Decoder, EngineInputs
from lmi_deploy.engines.image_server import ImageServer
from lmi_deploy.errors import Unresolvable

INFERENCE_PY: Final = "code/inference.py"
"""The place where the toolkit looks for the code."""
_TASKS: Final[tuple[Task, ...]] = ("question-answering", "text-classification")
_OPTIONS: Final = ("layout", "workers")
_LAYOUTS: Final = ("data", "pipeline")


class Neuron(ImageServer):
    name: ClassVar[Engine] = "neuron"
    family: ClassVar[str] = "huggingface-neuron"
    devices: ClassVar[tuple[Kind, ...]] = ("neuron",)

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if engine.template or engine.builtin:
            raise Unresolvable(
                f"handler.{'template' if engine.template else 'builtin'}: engine neuron has none",
                hint="omit it, or write handler.file: your own inference.py",
            )
        if not engine.file and task not in _TASKS:
            raise Unresolvable(
                f"task {task or 'unknown'}: lmi has no code for it on Inf1",
                hint=f"use one of {', '.join(_TASKS)}, or write handler.file: your own inference.py",
            )
        return HandlerSpec(entry_point=INFERENCE_PY, template=None)

    def properties(self, chosen: EngineInputs) -> Pairs:
        """`tensor_parallel_degree` is the number of NeuronCores of one copy of the model."""
        given = dict(image_server.server_options(chosen.options))
        for key in given:
            if key not in _OPTIONS:
                raise Unresolvable(
                    f"options.{key}: unknown to engine neuron", hint=f"it reads {' and '.join(_OPTIONS)}"
                )
        layout = given.get("layout", "data")
        if layout not in _LAYOUTS:
            raise Unresolvable(f"options.layout: {layout} is unknown", hint=f"use {' or '.join(_LAYOUTS)}")
        if layout == "data" and chosen.tensor_parallel_degree > 1:
            raise Unresolvable(
                f"tensor_parallel_degree: {chosen.tensor_parallel_degree}, but in layout data each copy of the model "
                "has one core",
                hint="add options: {layout: pipeline}, or omit tensor_parallel_degree",
            )
        workers = given.get("workers", "1")
        if not workers.isdecimal() or not int(workers):
            raise Unresolvable(
                f"options.workers: {workers} is not a number of processes", hint="write 1 or more"
            )
        return (
            ("model", SLOT),
            ("task", chosen.task or ""),
            ("workers", workers),
            ("groups", ",".join([str(chosen.tensor_parallel_degree)] * int(workers))),
        )

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        code = spec.inputs.model_py or (template_files() / "neuron" / "inference.py").read_bytes()
        files = [*image_server.marker_artifact(spec), ArtifactFile(INFERENCE_PY, code)]
        if spec.inputs.requirements:
            files.append(ArtifactFile("code/requirements.txt", spec.inputs.requirements))
        return tuple(files)

    def environment(self, spec: EngineSpec) -> Pairs:
        known = dict(spec.properties)
        return (
            ("LMI_MODEL_PATH", known["model"]),
            *((("LMI_TASK", known["task"]),) if known["task"] else ()),
            ("NEURONCORE_GROUP_SIZES", known["groups"]),
            ("SAGEMAKER_MODEL_SERVER_WORKERS", known["workers"]),
            ("SAGEMAKER_PROGRAM", "inference.py"),
        )

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        if task == "question-answering":
            return ours.question_probe()
        return InferenceRequest(prompt="OK", chat=False) if task == "text-classification" else None

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        if task != "text-classification":
            raise ours.needs_whole_body(task)
        return ours.body(request, "text-classification")

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        return ours.decoder(head, request, "text-classification")


ENGINE: Final = Neuron()
