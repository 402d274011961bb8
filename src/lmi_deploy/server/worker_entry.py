"""Starts DJL's Python engine 0.34 so that it loads a handler as 0.36 does. Runs in the worker's own Python: standard
library only, never imported by lmi.

    python worker_entry.py ENGINE_DIR/djl_python_engine.py [the engine's arguments]

Seen in a real 0.36 (recordings s67, s83) and read in its `service_loader.py`: a handler file is executed once per
look-up (as entry point, then twice for formatters), under the name `model_` and 8 digits of the MD5 of its path, which
then stands in `sys.modules`. So pickling its classes fails, and module-level weights load three times.
"""

import hashlib
import importlib.util
import os
import runpy
import sys


def load_file(service_loader, model_dir, path):
    """A new module object from the file, every time."""
    if not os.path.exists(path):
        raise ValueError(f"entry-point file not found {path}.")
    name = "model_" + hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return service_loader.ModelService(module, model_dir)


def main():
    engine = sys.argv[1]
    sys.argv = sys.argv[1:]
    # As if the engine itself had been started: its folder is first on the path, ours is not on it.
    sys.path[0] = os.path.dirname(engine)
    from djl_python import service_loader

    load_module = service_loader.load_model_service

    def load_model_service(model_dir, entry_point, device_id):
        torchserve = os.path.exists(os.path.join(model_dir, "MAR-INF", "MANIFEST.json"))
        if torchserve or not (entry_point.endswith(".py") or os.path.isabs(entry_point)):
            return load_module(model_dir, entry_point, device_id)
        return load_file(service_loader, model_dir, os.path.join(model_dir, entry_point))

    service_loader.load_model_service = load_model_service
    runpy.run_path(engine, run_name="__main__")


if __name__ == "__main__":
    main()
