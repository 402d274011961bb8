"""`make docs`: build the site of docs/ strictly, in an environment of its own below .build/.

A link that leads nowhere, an anchor that is missing and a page that the navigation does not reach are errors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tools.pinned_environment import BUILD, ROOT, pinned_environment

STRICT = ("-q", "-E", "-W", "--keep-going", "-n")


def main() -> int:
    python = pinned_environment("docs")
    target = BUILD / "site"
    shutil.rmtree(target, ignore_errors=True)
    build = [str(python), "-m", "sphinx", *STRICT, "-b", "html", str(ROOT / "docs"), str(target)]
    code = subprocess.run(build, cwd=ROOT, check=False).returncode
    if code == 0:
        print(f"the site: {(target / 'index.html').relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
