"""Measure the published figures: write results/<name>.json for each benchmark, then the table in docs/performance.md.

A missed aim is shown, and is no error; only a benchmark that does not work is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
import time
from pathlib import Path

from benchmarks import table
from benchmarks.measure import say
from benchmarks.result import Figure, Result, Skipped

_FOLDER = Path(__file__).parent


def main(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    if given.help:
        print("\n\n".join(_description(name) for name in given.names) or _overview())
        return 0
    for name in given.names or table.ORDER:
        say(f"== {name}")
        started = time.monotonic()
        try:
            result: Result = importlib.import_module(f"benchmarks.{name}").run()
        except Skipped as reason:
            say(f"== {name}: skipped, its earlier figures are kept: {reason}")
            continue
        result.write(name)
        for figure in result.figures:
            say(f"  {_shown(figure)}")
        say(f"== {name}: measured in {time.monotonic() - started:.0f} s")
    table.main(["--write"])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", add_help=False)
    parser.add_argument("names", nargs="*", metavar="NAME", type=_benchmark)
    parser.add_argument("-h", "--help", action="store_true")
    return parser


def _benchmark(name: str) -> str:
    if name not in table.ORDER:
        raise argparse.ArgumentTypeError(f"no benchmark {name!r}; there are: {', '.join(table.ORDER)}")
    return name


def _overview() -> str:
    width = max(map(len, table.ORDER))
    lines = [f"  {name:{width}}  {_docstring(name).splitlines()[0]}" for name in table.ORDER]
    return "\n".join(
        [
            "usage: python -m benchmarks [-h] [NAME ...]",
            "",
            (__doc__ or "").strip(),
            "",
            "Benchmarks (without a NAME: all of them, in this order):",
            *lines,
            "",
            "`python -m benchmarks NAME --help` says more of one.",
        ]
    )


def _description(name: str) -> str:
    return f"usage: python -m benchmarks {name}\n\n{_docstring(name)}"


def _docstring(name: str) -> str:
    """Read, not imported: what a benchmark imports may be missing, and takes time."""
    source = (_FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def _shown(figure: Figure) -> str:
    return f"{table.line(figure.fields())}{'' if figure.met in (True, None) else '  MISSED'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
