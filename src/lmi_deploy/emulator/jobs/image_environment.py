"""The local substitute for a job's container image: a separate Python environment, and its variables."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from lmi_deploy.catalog.stand_ins import StandIn
from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.container_files import inside
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.network_access import NetworkAccess
from lmi_deploy.emulator.jobs.job_container_files import Job, localized

_COMPILERS: Final = "/opt/djl/partition/"
_PYTHONS: Final = ("python", "python3")
_SEES: Final = "import sys; print(*(p for p in sys.path if p.endswith('-packages')), sep='\\n')"


@dataclass(frozen=True, slots=True)
class JobImage:
    """`inherited` is the base of its variables."""

    python: Path
    is_bare: bool
    """The standard library and nothing else: a job must bring its packages."""
    inherited: Mapping[str, str]
    reach: NetworkAccess
    stand_ins: tuple[StandIn, ...] = ()

    def compiler_for(self, image: str) -> Path | None:
        """The stand-in for the programs in /opt/djl/partition of this image."""
        found = next((one for one in self.stand_ins if one.compiles_in(image)), None)
        return found.folder / found.compiler if found else None

    def unpack(self, root: Path) -> None:
        """Create a separate environment, in which the packages that the job installs stay. Blocks."""
        for place in ("tmp", "root", "work"):
            (root / place).mkdir(exist_ok=True)
        folder = root / "env"
        created = [str(self.python), "-m", "venv", "--without-pip", str(folder)]
        try:
            subprocess.run(
                created, check=True, stdin=subprocess.DEVNULL, capture_output=True, env=dict(self.inherited)
            )
        except (OSError, subprocess.CalledProcessError) as exc:
            raise HostingFailed(
                f"InternalServerError: the emulator could not create a Python environment for the job: {exc}"
            ) from exc
        if not self.is_bare:
            self._show_packages(folder)

    def _show_packages(self, folder: Path) -> None:
        """Make the interpreter's packages visible in the environment."""
        observed = subprocess.run(
            [str(self.python), "-c", _SEES], check=True, capture_output=True, text=True
        ).stdout
        lines = "".join(f"import site; site.addsitedir({place!r})\n" for place in observed.splitlines())
        next(folder.glob("lib/python*/site-packages")).joinpath("image.pth").write_text(
            lines, encoding="utf-8"
        )

    def command(self, root: Path, job: Job) -> list[str]:
        """Entry point and arguments, with the places of this machine in them."""
        app = job.params["AppSpecification"]
        words: list[str] = [*app["ContainerEntrypoint"], *app.get("ContainerArguments", ())]
        program = PurePosixPath(words[0]).name
        if program in _PYTHONS:
            words[0] = str(root / "env" / "bin" / program)
        compiler = self.compiler_for(app["ImageUri"])
        if compiler is not None:
            words = [str(compiler) if word.startswith(_COMPILERS) else word for word in words]
        return [localized(root, word) for word in words]

    def environment(self, context: EmulatorContext, root: Path, job: Job) -> dict[str, str]:
        places = [str(root / "env" / "bin"), self.inherited.get("PATH", "/usr/bin:/bin")]
        if not self.is_bare:
            places.insert(1, str(self.python.parent))
        isolated = bool(job.params.get("NetworkConfig", {}).get("EnableNetworkIsolation"))
        image = job.params["AppSpecification"]["ImageUri"]
        compilers = [str(one.compiler_folder) for one in self.stand_ins if one.has_packages_for(image)]
        return {
            **self.inherited,
            "PATH": ":".join(places),
            **({"PYTHONPATH": ":".join(compilers)} if compilers else {}),
            "HOME": str(root / "root"),
            "TMPDIR": str(root / "tmp"),
            "LMI_OPT_ML": str(inside(root, "/opt/ml")),
            **self.reach.variables(context, job.role, job.region, isolated=isolated),
            **{key: localized(root, value) for key, value in job.params.get("Environment", {}).items()},
        }
