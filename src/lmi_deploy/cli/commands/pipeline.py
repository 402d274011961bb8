"""`lmi pipeline`: a job of a CI system, whose inputs are variables. The templates for GitHub, GitLab and CodeBuild call
nothing else.

One process from beginning to end: a signal of the CI system reaches the command that runs. GitHub signals only the
process of the step, with SIGINT, after 7.5 s SIGTERM, and kills it 2.5 s later (actions/runner, ProcessInvoker.cs).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.ci_system import CiSystem
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import LOCK_TIMEOUT, open_context
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.deployment_names import preview_name
from lmi_deploy.domain.recipe_key_types import Seconds
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import CHANGES_PENDING, LmiError, UsageRefused
from lmi_deploy.ui.plan_markdown import failure_markdown
from lmi_deploy.ui.verbosity import VERBOSITY
from lmi_deploy.ui.view_selection import open_view
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.extend import read_duration
from lmi_deploy.workflows.region_fallback import in_its_region
from lmi_deploy.workflows.rollback import accept, accepted, serving
from lmi_deploy.workflows.saved_plan import read_plan

F = TypeVar("F", bound=Callable[..., Any])
_MISSED: Final = (7, 8)
"""Exit codes of a bench whose objective is not met, or cannot be judged."""
_REPORTS: Final = {
    "github": ("github", ""),
    "gitlab": ("gitlab", "gl-code-quality-report.json"),
    "codebuild": ("junit", "lmi-validate.xml"),
}
"""By CI system, the format of what `lmi validate` found, and the file in which it looks for it; empty: its log."""


def _input(name: str, text: str, **more: Any) -> Callable[[F], F]:
    """An option, or the variable LMI_PIPELINE_NAME: a variable that is empty is not given."""
    variable = f"LMI_PIPELINE_{name.upper().replace('-', '_')}"
    shown = {"show_default": bool(more.get("default")), "show_envvar": True}
    return click.option(f"--{name}", envvar=variable, help=text, **{"default": "", **shown, **more})


_INPUTS: Final = (
    _input("recipe", "The recipe; for validate several, one a line.", metavar="FILE"),
    _input("name", "The name of the deployment, instead of the recipe's."),
    _input("preview", "Deploy a preview of this branch or pull request: NAME-BRANCH.", metavar="BRANCH"),
    _input("overlay", "An overlay of the recipe; its name is appended to the deployment's."),
    _input("set", "Keys that override the recipe, KEY=VALUE, one a line."),
    _input("ttl", "Expire the deployment after this time, such as 8h."),
    _input("max-hourly", "Refuse a plan that may cost more dollars an hour."),
    _input("lock-timeout", "Wait so long for another job that changes the deployment.", default="30m"),
    _input(
        "bench", "After `up`: options of `lmi bench run`, such as --requests 400 --objective p99_ms=2000."
    ),
    _input(
        "on-missed",
        "If an objective is not met: rollback, down or keep. The job fails.",
        type=click.Choice(["rollback", "down", "keep"]),
        default="rollback",
    ),
    _input("plan", "up: carry out this plan of an earlier job, without a recipe.", metavar="FILE"),
    _input(
        "folder",
        "Where plan.json, plan.md and comment.md are written; by default a new one in the system's folder.",
    ),
    _input("region", "The AWS region, if neither the recipe nor AWS_REGION names it."),
    _input(
        "take-over",
        "up: true also replaces what a recipe of another file or repository deployed under this name.",
        type=click.BOOL,
        default="false",
    ),
    _input(
        "if-missing",
        "down: if there is no such deployment in any region.",
        type=click.Choice(["ok", "fail"]),
        default="ok",
    ),
)


@click.command("pipeline")
@click.argument("job", type=click.Choice(["validate", "plan", "up", "down"]))
def command(*, job: str, as_json: bool, **given: Any) -> int:
    """Do a JOB of a CI pipeline: validate, plan, up or down.

    The inputs are options, or variables of the job: LMI_PIPELINE_RECIPE for --recipe. The same inputs always mean the
    same deployment, so that `down` ends what `up` made. In GitHub Actions, GitLab and CodeBuild mistakes are written in
    the form that the system shows beside the lines of a change.

    validate: the recipes alone, without network. plan: also what `up` would change; the plan is kept for a later `up
    --plan` and for a comment. up: the same, then `lmi up` and the bench; what misses its objective is taken back.
    """
    inputs = _Inputs.of(given)
    if inputs.region:
        os.environ.setdefault("AWS_REGION", inputs.region)
    seconds = read_duration(inputs.lock_timeout, Seconds(0, 86_400))
    click.get_current_context().meta[LOCK_TIMEOUT] = seconds
    system = CiSystem.of({} if as_json else os.environ, Path.cwd())
    return _Job(inputs, system, as_json=as_json).run(job)


for _option in (*_INPUTS, json_option):
    command = _option(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    recipes: tuple[str, ...]
    name: str
    preview: str
    overlay: str
    sets: tuple[str, ...]
    ttl: str
    max_hourly: str
    lock_timeout: str
    bench: tuple[str, ...]
    on_missed: str
    plan: str
    folder: str
    region: str
    take_over: bool
    if_missing: str

    @classmethod
    def of(cls, given: dict[str, Any]) -> _Inputs:
        try:
            bench = tuple(shlex.split("\n".join(_lines(given.pop("bench")))))
        except ValueError as wrong:
            raise UsageRefused(f"bench: {wrong}", hint="close the quotation mark") from None
        recipes, sets = _lines(given.pop("recipe")), _lines(given.pop("set"))
        take_over = bool(given.pop("take_over"))
        others: dict[str, str] = {key: value.strip() for key, value in given.items()}
        return cls(recipes=recipes, sets=sets, bench=bench, take_over=take_over, **others)

    @property
    def recipe(self) -> str | None:
        if len(self.recipes) > 1:
            raise UsageRefused(
                f"recipe: {len(self.recipes)} recipes, and this job takes one", hint="use one job for each"
            )
        return self.recipes[0] if self.recipes else None

    @property
    def own_keys(self) -> tuple[str, ...]:
        """As `--set` takes them: without the name, for which a recipe with mistakes cannot be asked."""
        return (*self.sets, *((f"ttl={self.ttl}",) if self.ttl else ()))

    @property
    def keys(self) -> tuple[str, ...]:
        name = self._base_name()
        return (*self.own_keys, *((f"name={name}",) if name else ()))

    def options(self, keys: Sequence[str]) -> list[str]:
        """Those of every command that reads the recipe."""
        overlay = ["--overlay", self.overlay] if self.overlay else []
        return [*overlay, *(word for pair in keys for word in ("--set", pair))]

    @property
    def limit(self) -> list[str]:
        return ["--max-hourly", self.max_hourly] if self.max_hourly else []

    @property
    def waiting(self) -> list[str]:
        return ["--lock-timeout", self.lock_timeout]

    @property
    def taking_over(self) -> list[str]:
        return ["--take-over"] if self.take_over else []

    @property
    def deployment(self) -> str:
        """The name that these inputs deploy. A recipe that is gone or wrong is not needed for it."""
        if read := self.read():
            return read.name
        name = self._base_name()
        if not name:
            raise UsageRefused("name: missing", hint="set the input name, or a recipe that can be read")
        return f"{name}-{self.overlay}" if self.overlay else name

    def read(self) -> Recipe | None:
        """None if the recipe is gone or wrong, or not given."""
        with contextlib.suppress(LmiError):
            if self.recipe:
                return read_recipe(self.recipe, overlay=self.overlay or None, sets=self.keys)
        return None

    @property
    def digest(self) -> str:
        """Different for two uses with different inputs."""
        words = (*self.recipes, self.name, self.preview, self.overlay, *self.own_keys)
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    def _base_name(self) -> str:
        """Empty: the recipe's own."""
        if not self.preview:
            return self.name
        base = self.name or read_recipe(self.recipe, overlay=None, sets=self.sets).name
        return preview_name(base, self.preview, self.overlay)


def _lines(text: str) -> tuple[str, ...]:
    """Without blank ones, and without comments."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


@dataclass(slots=True, kw_only=True)
class _Planned:
    code: int
    folder: Path
    changes: bool


class _Job:
    def __init__(self, inputs: _Inputs, system: CiSystem, *, as_json: bool) -> None:
        self._inputs = inputs
        self._system = system
        self._as_json = as_json
        self._token = secrets.token_hex(16) if system.name == "github" else ""
        self._verbosity = VERBOSITY.get()
        self._result: dict[str, object] = {"deployment": "", "changed": False, "plan": ""}
        self._given = click.get_current_context().obj

    def run(self, job: str) -> int:
        """GitHub carries out no command in what is printed: a recipe, AWS or a model may have put it there."""
        if self._token:
            _say(f"::stop-commands::{self._token}")
        try:
            jobs = {"validate": self.validate, "plan": self.plan, "up": self.up, "down": self.down}
            code = jobs[job]()
            if self._as_json and code == 0:
                open_view(as_json=True).result({"job": job, **self._result})
            return code
        finally:
            if self._token:
                _say(f"::{self._token}::")

    def validate(self) -> int:
        """`lmi validate`, with the report of the system."""
        words = ["validate", *self._inputs.recipes, *self._inputs.options(self._inputs.own_keys)]
        if not self._system.name:
            return self._lmi(*words)
        form, file = _REPORTS[self._system.name]
        report = io.StringIO()
        with contextlib.redirect_stdout(report):
            code = self._lmi(*words, "--format", form)
        if file:
            with writing(Path(file)):
                Path(file).write_text(report.getvalue(), encoding="utf-8")
        elif report.getvalue():
            self._command(report.getvalue().rstrip("\n"))
        return code

    def plan(self) -> int:
        return self._planned().code

    def _planned(self) -> _Planned:
        inputs, folder = self._inputs, self._folder()
        text = folder / "plan.md"
        changes, code = False, self.validate()
        try:
            if code:
                read_recipe(inputs.recipe, overlay=inputs.overlay or None, sets=inputs.own_keys)
            else:
                recipe = [inputs.recipe] if inputs.recipe else []
                words = ["plan", *recipe, *inputs.options(inputs.keys), *inputs.limit, "--exit-code"]
                code = self._lmi(*words, "--out", str(folder / "plan.json"), "--markdown", str(text))
                changes = code == CHANGES_PENDING
                code = 0 if changes else code
        except LmiError as error:
            text.write_text(failure_markdown(error), encoding="utf-8")
            if not code:  # else `lmi validate` has shown it
                raise
        finally:
            self._publish(folder)
        if not code:
            file = folder / "plan.json"
            self._result |= {"deployment": _planned_ref(file).name, "changed": changes, "plan": str(file)}
            _append("GITHUB_OUTPUT", f"pending={str(changes).lower()}\nplan={file}\n")
        return _Planned(code=code, folder=folder, changes=changes)

    def _folder(self) -> Path:
        """Of this use alone, without the files of an earlier one."""
        temporary = os.environ.get("RUNNER_TEMP", "") if self._system.name == "github" else ""
        folder = Path(self._inputs.folder or Path(temporary) / f"lmi-{self._inputs.digest}")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("plan.json", "plan.md", "comment.md", "bench.md", "bench.json"):
                (folder / name).unlink(missing_ok=True)
        return folder

    def _publish(self, folder: Path) -> None:
        """The plan in the summary of the job, and as a comment that the next run finds again by its first line."""
        text = folder / "plan.md"
        if not text.exists():
            return
        content, commit = text.read_text("utf-8"), self._system.commit[:12]
        _append("GITHUB_STEP_SUMMARY", content)
        of = f"\n<sub>commit {commit}</sub>\n" if commit else ""
        comment = folder / "comment.md"
        comment.write_text(f"<!-- lmi plan {self._inputs.digest} -->\n{content}{of}", encoding="utf-8")
        _append("GITHUB_OUTPUT", f"comment={comment}\n")

    def up(self) -> int:
        inputs = self._inputs
        if inputs.bench and (code := self._lmi("bench", "run", *inputs.bench, "--check-options")):
            return code
        file, changes, words = Path(inputs.plan), True, [inputs.plan, *inputs.limit]
        if not inputs.plan:
            planned = self._planned()
            if planned.code:
                return planned.code
            file, changes = planned.folder / "plan.json", planned.changes
            # No user has agreed to this plan: if another job changes the deployment, it may be made again.
            recipe = [inputs.recipe] if inputs.recipe else []
            words = [*recipe, *inputs.options(inputs.keys), *inputs.limit, *inputs.taking_over]
        ref = _planned_ref(file)
        self._result |= {"deployment": ref.name, "changed": changes, "plan": str(file)}
        if changes:
            end = f"{ref.command('down')} ends what this job starts"
            click.echo(f"{ref.name}: if the job is cancelled, {end}; its price is in the plan", err=True)
        before = serving(ref, self._deps())
        # Without a change too: it settles what an earlier job left, and sends the probe.
        if code := self._lmi("up", *words, "--yes", *inputs.waiting):
            return code
        return self._measured(self._located(ref), file.parent, before) if inputs.bench else 0

    def _located(self, ref: DeploymentRef) -> DeploymentRef:
        """A recipe with several regions may have left the planned one."""
        read = None if self._inputs.plan else self._inputs.read()
        if read and read.endpoint.regions:
            region = in_its_region(read, self._deps()).endpoint.region or ""
            return replace(ref, region=region, bucket=read.endpoint.bucket or "")
        return ref

    def _measured(self, ref: DeploymentRef, folder: Path, before: str) -> int:
        """What misses its objective is taken back: to what a pipeline accepted last, or, if this job deployed it, to
        what served before it. Nothing is done to what another job has deployed since.
        """
        deps, missed = self._deps(), self._inputs.on_missed
        served, where, waiting = serving(ref, deps), _where(ref), self._inputs.waiting
        markdown, report = folder / "bench.md", _output_of(self._inputs.bench)
        output = [] if report else ["--output", str(folder / "bench.json")]
        words = ["bench", "run", ref.name, *where, *self._inputs.bench, *output]
        code = self._lmi(*words, "--markdown", str(markdown))
        if markdown.exists():
            _append("GITHUB_STEP_SUMMARY", markdown.read_text("utf-8"))
        if _is_interrupted(Path(report or folder / "bench.json")):
            self._warn(
                f"{ref.name} was not measured to the end, and not accepted: it serves, and costs money"
            )
            return 130
        if code == 0:
            if not accept(ref, deps, served):
                self._warn(f"{ref.name}: another job has deployed since; nothing was accepted")
            return 0
        good = accepted(ref, deps)
        back = good not in ("", served) or served != before
        if code in _MISSED and missed != "keep" and serving(ref, deps) != served:
            self._warn(f"{ref.name}: another job has deployed since; nothing was taken back")
        elif code in _MISSED and missed == "down":
            self._lmi("down", ref.name, *where, "--yes", *waiting)
        elif code in _MISSED and missed == "rollback" and back:
            to = ["--to", good] if good not in ("", served) else []
            words = ["rollback", ref.name, *where, *to, "--if-serving", served, "--yes", *waiting]
            if self._lmi(*words):
                again = f"It still runs and costs money: {ref.command('down')} deletes it"
                self._warn(f"{ref.name} was not rolled back (see above). {again}")
        elif served != good:
            back_words = f"{ref.command('rollback')} takes it back"
            self._warn(f"{ref.name} serves a version that was not accepted: {back_words}")
        return code

    def down(self) -> int:
        name, where = self._inputs.deployment, []
        if read := self._inputs.read():
            if read.endpoint.regions:
                read = in_its_region(read, self._deps())
            where = ["--region", read.endpoint.region] if read.endpoint.region else []
        self._result |= {"deployment": name, "changed": True}
        words = ["down", name, *where, "--yes", *self._inputs.waiting]
        return self._lmi(*words, "--if-missing", self._inputs.if_missing)

    def _deps(self) -> Dependencies:
        return open_context(as_json=self._as_json).deps

    def _lmi(self, *words: str) -> int:
        """Another command, in this process: a signal reaches it."""
        sys.stdout.flush()
        chosen = [f"--{self._verbosity}"] if self._verbosity != "normal" else []
        code = run(lmi, [*words, *chosen, *(["--json"] if self._as_json else [])], given=self._given)
        sys.stdout.flush()
        return code

    def _warn(self, text: str) -> None:
        if self._token:
            self._command(f"::warning title=lmi::{text}")
        else:
            click.echo(f"warning: {text}", err=True)

    def _command(self, line: str) -> None:
        """A command that GitHub carries out."""
        _say(f"::{self._token}::\n{line}\n::stop-commands::{self._token}")


def _say(line: str) -> None:
    sys.stderr.flush()
    click.echo(line)
    sys.stdout.flush()


def _planned_ref(file: Path) -> DeploymentRef:
    try:
        return read_plan(file.read_bytes(), str(file)).spec.ref
    except OSError as reason:
        raise UsageRefused(f"{file}: {reason.strerror}", hint="`lmi pipeline plan` writes one") from None


def _where(ref: DeploymentRef) -> list[str]:
    return ["--target", "local"] if ref.is_here else ["--target", "sagemaker", "--region", ref.region]


def _output_of(bench: Sequence[str]) -> str:
    """The file that these options of a bench name for its report; empty if none."""
    for number, word in enumerate(bench):
        if word in ("-o", "--output"):
            return next(iter(bench[number + 1 :]), "")
        if word.startswith("--output="):
            return word.partition("=")[2]
    return ""


def _is_interrupted(report: Path) -> bool:
    try:
        return bool(json.loads(report.read_bytes())["interrupted"])
    except (OSError, ValueError, KeyError):
        return False


def _append(variable: str, text: str) -> None:
    """To the file that this variable names, if the system has such a file."""
    if name := os.environ.get(variable):
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text)
