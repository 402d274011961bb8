"""`lmi chat`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.shared_options import (
    json_option,
    name_argument,
    place_options,
    request_options,
)
from lmi_deploy.domain.djl_serving import usual_reason
from lmi_deploy.domain.events import Answered
from lmi_deploy.domain.inference_http import InferenceRequest, Turn
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.template_handlers import messages
from lmi_deploy.errors import LmiError, UsageRefused
from lmi_deploy.workflows.awaiting_copies import CopyWait
from lmi_deploy.workflows.invoke import ResponseMetrics, invoke, require_chat

_TOO_LONG: Final = re.compile(
    r"of context|context (length|window)|maximum model length|max_model_len|this model takes from",
    re.IGNORECASE,
)
_SHORTEN: Final = (
    "/reset starts a new conversation (/save FILE keeps this one); -p max_tokens=N asks for shorter answers"
)


@click.command("chat")
@name_argument
@request_options
@click.option(
    "--timeout", default=120.0, show_default=True, help="Stop after this many seconds without data."
)
@place_options
@json_option
def command(*, name: str | None, where: TargetOptions, timeout: float, as_json: bool, **chosen: Any) -> None:
    """Chat with the deployment NAME in the terminal. lmi streams the answers, and remembers the conversation.

    \b
    /reset        forget the conversation, keep the system prompt
    /system TEXT  set the system prompt; without TEXT, remove it
    /save FILE    write the conversation as a request body (JSON)
    /exit         end the conversation, like Ctrl-D
    //TEXT        send /TEXT to the model

    Ctrl-C stops the current answer. If stdin is not a terminal, each of its lines is a question, and the first error
    ends the command.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    require_chat(ref, context.deps)
    interactive = sys.stdin.isatty() and not as_json
    request = InferenceRequest(stream=True, **chosen)
    chat = Conversation(ref, context, request, timeout=timeout, interactive=interactive, as_json=as_json)
    if interactive:
        context.view.note(f"{ref.name} ({ref.place}). /help lists the commands, Ctrl-D ends.")
    for line in _lines(context) if interactive else sys.stdin:
        if not chat.respond(line.strip()):
            break
    context.view.result({**ref_fields(ref), "turns": chat.answered})


@dataclass
class Conversation:
    """`request` holds the system prompt, the earlier turns and the parameters."""

    ref: DeploymentRef
    context: CommandContext
    request: InferenceRequest
    timeout: float = field(kw_only=True)
    interactive: bool = field(kw_only=True)
    as_json: bool = field(kw_only=True)
    answered: int = 0

    def respond(self, line: str) -> bool:
        """Send a line, or carry out a command; False ends the conversation. In a terminal an error does not."""
        try:
            if line.startswith("/") and not line.startswith("//"):
                return self._command(*line.partition(" ")[::2])
            if line:
                self._ask(line.removeprefix("/"))
        except LmiError as error:
            if not self.interactive:
                raise
            self.context.view.fail(error)
        return True

    def _command(self, word: str, argument: str) -> bool:
        match word, argument.strip():
            case "/exit", "":
                return False
            case "/reset", "":
                self.request = replace(self.request, history=())
                self.context.view.note("[new conversation]")
            case "/system", text:
                self.request = replace(self.request, system=text)
                self.context.view.note("[system prompt set]" if text else "[no system prompt]")
            case "/save", path if path:
                self._save(Path(path))
            case "/help", "":
                self.context.view.note(_list_commands())
            case _:
                raise UsageRefused(
                    f"no such command: {word} {argument}".rstrip(),
                    hint="/help lists them; //TEXT sends a text that begins with a slash",
                )
        return True

    def _ask(self, prompt: str) -> None:
        measured, parts = ResponseMetrics(), list[str]()
        try:
            self._stream(replace(self.request, prompt=prompt), measured, parts)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.context.view.note("\n[stopped]")
        except LmiError as error:
            if any(_TOO_LONG.search(text) for text in (error.message, *error.details)):
                error.hint = _SHORTEN
            elif reason := usual_reason(error.message, *error.details):
                error.hint = f"{reason}; {_SHORTEN}"
            raise
        if measured.finish == "length":
            self.context.view.note("[cut at the token limit (-p max_tokens=N)]")
        if parts:
            self._remember(Turn(prompt, "".join(parts)), measured.total_seconds)

    def _stream(self, request: InferenceRequest, measured: ResponseMetrics, parts: list[str]) -> None:
        """Shows the answer as it comes, and collects it in `parts`: as much as there is, if it breaks off."""
        view = self.context.view
        try:
            wait = CopyWait(show=view.show, done=view.close)
            for chunk in invoke(
                self.ref, request, self.context.deps, measured, timeout=self.timeout, wait=wait
            ):
                if chunk.text:
                    parts.append(chunk.text)
                    view.chunk(chunk.text)
        except LmiError:
            if parts:
                view.end_of_response()
            raise
        if not parts or not parts[-1].endswith("\n"):
            view.end_of_response()

    def _remember(self, turn: Turn, seconds: float) -> None:
        self.answered += 1
        self.request = replace(self.request, history=(*self.request.history, turn))
        if self.as_json:
            self.context.view.show(Answered(prompt=turn.prompt, answer=turn.answer, seconds=seconds))

    def _save(self, path: Path) -> None:
        if path.exists():
            raise UsageRefused(f"{path}: the file exists", hint="/save ANOTHER-FILE")
        with writing(path):
            body = {"messages": messages(self.request)[:-1]}
            path.write_text(json.dumps(body, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        self.context.view.note(f"[{path}: {len(self.request.history)} turns]")


def _list_commands() -> str:
    """The part of the help that lists them."""
    return cleandoc(command.help or "").split("\n\n")[1].strip("\b\n")


def _lines(context: CommandContext) -> Iterator[str]:
    """Typed in a terminal, until Ctrl-D. Ctrl-C drops the line."""
    with suppress(ImportError):
        import readline  # noqa: F401 (gives `input` its line editing and its history)
    while True:
        try:
            yield _line()
        except KeyboardInterrupt:
            context.view.note("\n[Ctrl-D or /exit ends the conversation]")
        except EOFError:
            context.view.note("")
            return


def _line() -> str:
    if sys.stdout.isatty():
        return input(">>> ")
    # Only answers go to stdout.
    sys.stderr.write(">>> ")
    sys.stderr.flush()
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line
