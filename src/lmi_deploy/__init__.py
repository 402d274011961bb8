"""lmi: from a recipe to an answering large-model endpoint, and back to nothing.

    import lmi_deploy as lmi

    deployment = lmi.up("chat.yaml").result(lmi.show)
    print(deployment.invoke("What is the capital of France?"))
    deployment.down()

Nothing is imported before it is used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as a type checker reads it; the module `typing` takes 5 ms
if TYPE_CHECKING:
    from lmi_deploy.api.benchmarks import Benchmark as Benchmark
    from lmi_deploy.api.deployments import Deployment as Deployment
    from lmi_deploy.api.plans import Plan as Plan
    from lmi_deploy.api.plans import plan as plan
    from lmi_deploy.api.recipes import Recipe as Recipe
    from lmi_deploy.api.recipes import Validation as Validation
    from lmi_deploy.api.responses import Answer as Answer
    from lmi_deploy.api.responses import ResponseStream as ResponseStream
    from lmi_deploy.api.run import Run as Run
    from lmi_deploy.api.run import show as show
    from lmi_deploy.api.up import up as up
    from lmi_deploy.domain.events import Answered as Answered
    from lmi_deploy.domain.events import Event as Event
    from lmi_deploy.domain.events import Finished as Finished
    from lmi_deploy.domain.events import Line as Line
    from lmi_deploy.domain.events import Notice as Notice
    from lmi_deploy.domain.events import Progress as Progress
    from lmi_deploy.domain.events import Started as Started
    from lmi_deploy.domain.inference_http import ImageFile as ImageFile
    from lmi_deploy.domain.inference_http import InferenceRequest as InferenceRequest
    from lmi_deploy.domain.inference_http import Turn as Turn
    from lmi_deploy.errors import AccessError as AccessError
    from lmi_deploy.errors import DeployFailed as DeployFailed
    from lmi_deploy.errors import Interrupted as Interrupted
    from lmi_deploy.errors import LmiError as LmiError
    from lmi_deploy.errors import NotFound as NotFound
    from lmi_deploy.errors import RecipeError as RecipeError
    from lmi_deploy.errors import Refused as Refused
    from lmi_deploy.errors import UsageRefused as UsageRefused
    from lmi_deploy.errors.recipe_problem import Problem as Problem
    from lmi_deploy.workflows.status import Status as Status

_EXPORTS = {
    "api.benchmarks": ("Benchmark",),
    "api.deployments": ("Deployment",),
    "api.plans": ("Plan", "plan"),
    "api.recipes": ("Recipe", "Validation"),
    "api.responses": ("Answer", "ResponseStream"),
    "api.run": ("Run", "show"),
    "api.up": ("up",),
    "domain.events": ("Answered", "Event", "Finished", "Line", "Notice", "Progress", "Started"),
    "domain.inference_http": ("ImageFile", "InferenceRequest", "Turn"),
    "errors": (
        *("AccessError", "DeployFailed", "Interrupted", "LmiError", "NotFound", "RecipeError", "Refused"),
        "UsageRefused",
    ),
    "errors.recipe_problem": ("Problem",),
    "workflows.status": ("Status",),
}
"""The public names, by the module that each comes from."""
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
