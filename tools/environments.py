"""What the tests need besides `.venv`, fetched before the first of them: `python -m tools.environments`.

It stays in lmi's cache, where `make quickstart` and `lmi serve` find it.
"""

from __future__ import annotations

import sys

from lmi_deploy.errors import LmiError
from tests.support.djl_engine import engine_dir
from tests.support.serving_environment import serving_python

NEEDS = (
    "needs, unless cached: DJL's engine (Maven Central, 1 MB), torch and transformers (package index, 5 GB)"
)


def main() -> int:
    print(NEEDS, flush=True)
    try:
        engine_dir()
        serving_python(tell=True)
    except LmiError as error:
        print(f"error: {error}\n  next: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
