"""Every error that lmi raises on purpose: what happened, why, what next, and the exit code.

Exit codes (design, decision 9): 0 done or nothing to do, 1 failed, 2 bad recipe or usage, 3 a bug of lmi, 4 changes
pending or out of sync, 5 refused, 6 integrity, 7 objective missed, 8 undecided,
130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from lmi_deploy.errors.url_redaction import mask_urls

if TYPE_CHECKING:  # dataclasses take 2 ms of `lmi --help`
    from lmi_deploy.errors.recipe_problem import Problem

CHANGES_PENDING = 4
"""The exit code of `lmi plan --exit-code` and `lmi migrate --check` if something would change."""
EXIT_CODES: dict[int, str] = {
    0: "done, or nothing to do",
    1: "failed",
    2: "bad recipe or usage",
    3: "a bug of lmi (a report file is written)",
    4: "changes pending (plan --exit-code), not in-step (status), or no response yet (invoke --result)",
    5: "refused: locked, not created by lmi, stale plan, over --max-hourly",
    6: "integrity: the bytes differ from those of their source",
    7: "objective missed (bench)",
    8: "undecided: too few requests to show whether an objective is met (bench)",
    130: "interrupted, or a question was not answered with yes",
}

EXIT_ADVICE: dict[int, str] = {
    0: "go on",
    1: "read the message; running the command again continues where it stopped",
    2: "correct the recipe or the command; a retry does not help",
    3: "attach the report file to a bug report",
    4: "`plan --exit-code`: run `lmi up`. `status`: the deployment is drifted, starting or absent. `invoke --result`: "
    "ask again later",
    5: "nothing was changed; follow the message; for a stale plan, run `lmi plan` again. With `--json`, `error.kind` "
    "is Locked, StalePlan, OverBudget, NotOwned, or Refused for anything else",
    6: "do not retry blindly: the source or the copy is damaged",
    7: "a measured objective was not met, or cannot be judged because the report is INVALID",
    8: "measure longer, or accept it with `--undecided pass`",
    130: "run the command again to continue; the message says what exists and costs money",
}
"""What a script does with it."""


class LmiError(Exception):
    """`message` states what and why with the numbers; `hint` the next step. Neither shows a password of a URL."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(mask_urls(message))
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def message(self) -> str:
        return self._message

    @message.setter
    def message(self, text: str) -> None:
        self._message = mask_urls(text)

    @property
    def hint(self) -> str:
        return self._hint

    @hint.setter
    def hint(self, text: str) -> None:
        self._hint = mask_urls(text)

    @property
    def details(self) -> tuple[str, ...]:
        return self._details

    @details.setter
    def details(self, lines: Sequence[str]) -> None:
        self._details = tuple(mask_urls(line) for line in lines)


class RecipeError(LmiError):
    """All mistakes of a recipe together, in the order of the file."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        errors = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        super().__init__(f"{errors} in the recipe", hint=hint, details=[str(p) for p in problems])
        self.problems = tuple(problems)


class Unresolvable(LmiError):
    """The recipe is valid, but no deployment can be derived from it and the facts."""

    exit_code = 2


class UsageRefused(LmiError):
    """The command line requests something impossible."""

    exit_code = 2


EXTRAS: Final = {
    "psutil": "local",
    "uv": "local",
    "jgo": "local",
    "aiohttp": "emulator",
    "moto": "emulator",
    "httptools": "proxy",
    "prometheus_client": "proxy",
    "uvicorn": "proxy",
    "uvloop": "proxy",
    "obstore": "obstore",
    "sagemaker": "sagemaker",
    "tokenizers": "bench",
    "pyarrow": "parquet",
}
"""Packages that a plain installation does not include, by the extra of lmi-deploy that installs them."""


class NotInstalled(UsageRefused):
    """The command needs a package of `EXTRAS`, and it is not installed."""

    def __init__(self, package: str, *, extra: str = "", instead: str = "") -> None:
        from lmi_deploy.errors.install_command import install_command

        extra = extra or EXTRAS[package]
        super().__init__(
            f"the package {package} is not installed; it belongs to the extra [{extra}]",
            hint=f"{install_command(extra)}{instead}",
        )

    @classmethod
    def of(cls, missing: ModuleNotFoundError) -> NotInstalled | None:
        """None if the module belongs to no extra. Such packages are imported where they are needed."""
        package = (missing.name or "").partition(".")[0]
        return cls(package) if package in EXTRAS else None


class AccessError(LmiError):
    """A service refused us: no, wrong or insufficient credentials, or it cannot be reached."""


class NoCredentials(AccessError):
    """AWS is not set up on this machine: there is no identity, so lmi has no resources there either."""


class NotFound(LmiError):
    """The named resource does not exist. `arn` is its ARN, if AWS's response contains it."""

    def __init__(self, message: str, *, hint: str = "", details: Sequence[str] = (), arn: str = "") -> None:
        super().__init__(message, hint=hint, details=details)
        self.arn = arn


class CloudError(LmiError):
    """A service answered with its own error."""


class RoleNotAssumable(CloudError):
    """SageMaker cannot assume the role: it is new and not yet known everywhere, does not exist, or does
    not trust it.
    """


class Conflict(LmiError):
    """A conditional write found another state: another process was first."""


class LockLost(LmiError):
    """Another process took the deployment's lock while we held it: we stopped before the next change."""


class TransferFailed(LmiError):
    """Bytes did not arrive; complete data was kept."""


class DeployFailed(LmiError):
    """The deployment did not start to respond."""


class SetupBroken(LmiError):
    """`lmi doctor` found something that does not work."""


class CompileFailed(LmiError):
    """An ahead-of-time compile ended without a result; nothing of it was kept."""


class NotCompiled(LmiError):
    """The recipe serves the result of a compile that was not made yet."""

    exit_code = 2


class NoCapacity(DeployFailed):
    """AWS has no such instance available at the moment; another type may be available, or this one later."""


class NoCopies(CloudError):
    """No copy of an inference component runs: the request was not processed, and may be what starts one."""


class SharedEndpointGone(CloudError):
    """The last deployment on the shared endpoint ended, and deletes it: no other can be put on it any more."""


class QuotaExceeded(CloudError):
    """The account's limit is reached; retrying does not help."""


class DiskRefused(LmiError):
    """A disk of this machine is full, read-only or not ours."""


class Overdue(LmiError):
    """A deadline passed before the expected state was reached."""


class Refused(LmiError):
    """Nothing was changed, because lmi must not change it, or not now."""

    exit_code = 5


class Locked(Refused):
    """Another lmi changes the deployment now."""


class StalePlan(Refused):
    """The deployment or a price has changed since the plan was shown."""


class OverBudget(Refused):
    """It may cost more than --max-hourly, or its price is unknown."""


class NotOwned(Refused):
    """It exists under this name, and lmi did not create it."""


class IntegrityError(LmiError):
    """Bytes differ from their source's hash; they were not stored under a final name."""

    exit_code = 6


class ObjectiveMissed(LmiError):
    """A measurement is complete, and what was asked of it is not met."""

    exit_code = 7


class Undecided(LmiError):
    """A measurement is complete, and too small to show whether what was asked of it is met."""

    exit_code = 8


class Bug(LmiError):
    """An exception that was not raised on purpose."""

    exit_code = 3


class Interrupted(LmiError):
    """The user interrupted the command; the message says what exists now."""

    exit_code = 130


UNBEGUN: Final = "nothing was changed. Run the command again"
RECORDED: Final = (
    "the steps so far are recorded: `lmi status` shows them, `lmi up` continues, `lmi down` deletes them"
)
"""The hint of an interrupted command that writes a record: before and after its first entry."""
