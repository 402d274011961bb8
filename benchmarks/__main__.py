"""`python -m benchmarks [NAME ...]`: measure, write `results/<name>.json`, then the README's table.

A missed aim is shown, and is no error; only a benchmark that does not work is.
"""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks import table
from benchmarks.measure import say
from benchmarks.result import Figure, Result


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in table.ORDER]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(table.ORDER)}", file=sys.stderr)
        return 2
    for name in names or table.ORDER:
        say(f"== {name}")
        begun = time.monotonic()
        result: Result = importlib.import_module(f"benchmarks.{name}").run()
        result.write(name)
        for figure in result.figures:
            say(f"  {_shown(figure)}")
        say(f"== {name}: measured in {time.monotonic() - begun:.0f} s")
    table.main(["--write"])
    return 0


def _shown(figure: Figure) -> str:
    return f"{table.line(figure.fields())}{'' if figure.met in (True, None) else '  MISSED'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
