"""Start DJL's Python engine 0.34 so that it loads a handler as 0.36 does. Runs in the worker's own Python: standard
library only, never imported by lmi.

    python djl_engine_entry.py ENGINE_DIR/djl_python_engine.py [the engine's arguments]

Observed in a real 0.36 (recordings s67, s83) and in its `service_loader.py`: a handler file is executed once per
look-up (as entry point, then twice for formatters), under the name `model_` and 8 digits of the MD5 of its path,
which is then in `sys.modules`. So pickling its classes fails, and module-level weights load three times.

The engine's NDLists call `ndarray.newbyteorder`, which numpy 2 removed; numpy 1 has no wheels for Python 3.13.
"""

from __future__ import annotations

import hashlib
import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType


def load_file(path: Path) -> ModuleType:
    """A new module from the file, every time."""
    if not path.exists():
        raise ValueError(f"entry-point file not found {path}.")
    name = "model_" + hashlib.md5(str(path).encode(), usedforsecurity=False).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_tensor_format(path: Path) -> None:
    """The engine's NDLists, over the dtype's `newbyteorder`, which numpy 1 and 2 have."""
    module = ModuleType("djl_python.np_util")
    vars(module)["newbyteorder"] = lambda array, order: array.view(array.dtype.newbyteorder(order))
    source = path.read_text(encoding="utf-8").replace("nd.newbyteorder(", "newbyteorder(nd, ")
    exec(compile(source, path, "exec"), vars(module))
    sys.modules[module.__name__] = module


def main() -> None:
    engine = Path(sys.argv[1])
    sys.argv = sys.argv[1:]
    # As if the engine itself had been started: its folder is first on the path, ours is not on it.
    sys.path[0] = str(engine.parent)
    load_tensor_format(engine.parent / "djl_python" / "np_util.py")
    service_loader = importlib.import_module("djl_python.service_loader")
    load_as_module = service_loader.load_model_service

    def load_model_service(model_dir: str, entry_point: str, device_id: str) -> object:
        folder = Path(model_dir)
        is_file = entry_point.endswith(".py") or Path(entry_point).is_absolute()
        if not is_file or (folder / "MAR-INF" / "MANIFEST.json").exists():
            return load_as_module(model_dir, entry_point, device_id)
        return service_loader.ModelService(load_file(folder / entry_point), model_dir)

    vars(service_loader)["load_model_service"] = load_model_service
    runpy.run_path(str(engine), run_name="__main__")


if __name__ == "__main__":
    main()
