"""In the place of pip: `python -m pip install --target DIR PACKAGE ...` lists the packages, and installs none."""

import argparse
import sys
from pathlib import Path


def main():
    given = argparse.ArgumentParser(prog="pip")
    given.add_argument("command", choices=["install"])
    given.add_argument("--target", type=Path, required=True)
    given.add_argument("--no-cache-dir", action="store_true")
    given.add_argument("-q", action="store_true")
    given.add_argument("packages", nargs="+")
    options = given.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    (options.target / "stand-in.txt").write_text("\n".join(options.packages) + "\n")
    print("stand-in for pip: not installed:", *options.packages, file=sys.stderr)


if __name__ == "__main__":
    main()
