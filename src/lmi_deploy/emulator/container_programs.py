"""Which program runs for which image: DJLServing's images the embedded server, others by their repository."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from lmi_deploy.catalog.package_files import stand_ins
from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.emulator.hosting.stand_ins import ContainerServers, ServersByHome
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.server_dirs import read_note, write_note, write_start_failure

_NOTE: Final = "container-program.json"
_COMPILED: Final = re.compile(r'^backend: *"(tensorrt|onnxruntime)"$', re.MULTILINE)
_FILE: Final = re.compile(r"^default_model_filename: .*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContainerPrograms(ServersByHome):
    """The `ContainerServers` of every image.

    `programs`, by a pattern of the repository (`sagemaker-tritonserver`, `my-team/*`); the first that matches runs.
    Images without a match run `djl`. The choice is noted in the home, so that it is found again without the image.
    """

    djl: ContainerServers
    programs: Mapping[str, ContainerServers]

    def start(self, launch: Launch) -> ObservedServer:
        """A program that cannot be started here is a container that exits, with the reason in its log."""
        pattern = self._pattern(repository_of(launch.image))
        launch.home.mkdir(parents=True, exist_ok=True)
        write_note(launch.home / _NOTE, {"pattern": pattern})
        server = self._server(pattern)
        try:
            return server.start(launch)
        except LmiError as exc:
            message = f"{exc.message}. {exc.hint}" if exc.hint else exc.message
            with server.log(launch.home).open("a", encoding="utf-8") as log:
                log.write(f"{message}\n")
            write_start_failure(launch.home, message)
            return ObservedServer(server=launch.home.name, phase="failed", pid=None, port=None)

    def _of(self, home: Path) -> ContainerServers:
        return self._server(str(read_note(home / _NOTE).get("pattern", "")))

    def _server(self, pattern: str) -> ContainerServers:
        return self.programs.get(pattern, self.djl)

    def _pattern(self, repository: str) -> str:
        return next((each for each in self.programs if fnmatchcase(repository, each)), "")


def repository_of(image: str) -> str:
    """Of `registry/repository:tag` or `registry/repository@digest`: the repository, without the registry."""
    name = image.partition("@")[0]
    head, _, last = name.rpartition("/")
    path = f"{head}/{last.partition(':')[0]}"
    first, _, rest = path.lstrip("/").partition("/")
    return rest if rest and ("." in first or ":" in first or first == "localhost") else path.lstrip("/")


def adapt_repository(launch: Launch, repository: Path) -> None:
    """Places under /opt/ml become those of this container; compiled parts of an encoder-decoder become Python models
    that compute the same from the checkpoint among the weights, and the log says so.
    """
    opt = launch.model_folder.parent
    for config in sorted(repository.glob("*/config.pbtxt")):
        text = config.read_text(encoding="utf-8").replace("/opt/ml/", f"{opt}/")
        backend = _COMPILED.search(text)
        code = stand_ins() / "triton" / f"{config.parent.name}.py"
        if backend and code.is_file():
            text = _FILE.sub("", _COMPILED.sub('backend: "python"', text))
            shutil.copyfile(code, config.parent / "1" / "model.py")
            with (launch.home / "server.log").open("a", encoding="utf-8") as log:
                what = f"Triton's backend {backend[1]}: {config.parent.name} computed with transformers"
                log.write(f"{STAND_IN_NOTICE} {what}\n")
        config.write_text(text, encoding="utf-8")
