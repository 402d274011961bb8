"""The output of the commands that send requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypedDict

from lmi_deploy.bench.comparison import Direction, FigureChange
from lmi_deploy.bench.report import Judgement, SearchState
from lmi_deploy.bench.self_test import SelfTest
from lmi_deploy.cli.output_schema.command_output import CommandOutput, DeploymentFields, Merged, ServerResult


class InvokeResult(DeploymentFields):
    """`tokens_per_second` is null for an answer without a stream; `finish` is empty if the server does not say why."""

    answer: str
    seconds: float
    first_token_seconds: float | None
    tokens: int
    tokens_per_second: float | None
    finish: str


class AsyncSentResult(DeploymentFields):
    """`invoke --detach`: the address in S3 where the response will be."""

    inference_id: str
    status: Literal["pending"]
    output: str


class AsyncPendingResult(DeploymentFields):
    inference_id: str
    status: Literal["pending"]
    submitted: str


class AsyncAnswerResult(DeploymentFields):
    inference_id: str
    status: Literal["done"]
    answer: str


class ChatResult(DeploymentFields):
    turns: int


class TokenResult(DeploymentFields):
    token: str
    base_url: str
    expires_at: str


class ReadyProxy(TypedDict):
    """The first line of `lmi proxy`; `base_url` and `api_key` are for OpenAI's clients. `api_key` is null if you gave
    the key.
    """

    url: str
    base_url: str
    api_key: str | None
    models: list[str]


class SearchFields(TypedDict):
    state: SearchState
    value: float | None


class BenchResult(TypedDict):
    """`judgement` is null without an objective; `files` were written beside the JSON report."""

    name: str
    points: int
    valid: bool
    judgement: Judgement | None
    interrupted: bool
    search: SearchFields | None
    files: list[str]


class SelfTestRow(TypedDict):
    concurrency: int
    requests: int
    mean_error_ms: float
    p99_error_ms: float
    rate_of_ideal: str


class SelfTestResult(TypedDict):
    self_tests: list[SelfTest]


class ChangeDirection(TypedDict):
    direction: Direction


class ComparisonResult(TypedDict):
    better: int
    worse: int
    figures: int
    undecided: int
    warnings: list[str]


OUTPUTS: Final[Mapping[str, CommandOutput]] = {
    "invoke": CommandOutput(results=(InvokeResult, AsyncSentResult, AsyncPendingResult, AsyncAnswerResult)),
    "chat": CommandOutput(results=(ChatResult,)),
    "bench run": CommandOutput(results=(BenchResult, SelfTestResult), rows=(SelfTestRow,)),
    "bench experiment": CommandOutput(results=(BenchResult,)),
    "bench report": CommandOutput(results=(BenchResult,)),
    "bench compare": CommandOutput(
        results=(ComparisonResult,), rows=(Merged("ComparedFigure", (FigureChange, ChangeDirection)),)
    ),
    "token": CommandOutput(results=(TokenResult,)),
    "proxy": CommandOutput(results=(ServerResult,), events=(("ready", ReadyProxy),)),
}
