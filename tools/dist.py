"""`make dist`: the packages of a release in dist/, checked, and what they depend on (SBOM).

The sdist comes from the folder, and the wheel from the sdist: what the sdist lacks, the wheel lacks. Then the wheel
must have the same files as one from the folder, `twine check --strict` accepts both, and the wheel's `lmi` in an empty
environment validates every recipe. With `--repository URL` the packages name it (project URLs). The SBOMs (CycloneDX
1.6, JSON) name the packages that the wheel installs, with versions and licences: alone, and with all extras.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from tools.pinned_environment import ROOT, install, make_venv, pinned_environment

PINS = ("--constraint", str(ROOT / "requirements" / "dev.txt"))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.dist", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--repository", default="", help="https:// address of the public repository")
    given = parser.parse_args(argv)
    if given.repository and not given.repository.startswith("https://"):
        parser.error(f"--repository {given.repository}: it must begin with https://")
    out: Path = given.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix="lmi-dist-") as work:
            make(out, Path(work), given.repository.rstrip("/"))
    except (subprocess.CalledProcessError, DistributionError) as failed:
        shutil.rmtree(out, ignore_errors=True)
        print(f"error: {failed}\n  next: its own words are above; nothing is left in {out}", file=sys.stderr)
        return 1
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>10,} {path.name}")
    return 0


class DistributionError(Exception):
    """What was built is not what should be released."""


def make(out: Path, work: Path, repository: str = "") -> None:
    build = (sys.executable, "-m", "build", "--no-isolation")
    source = source_with_urls(work / "source", repository) if repository else ROOT
    _run(*build, "--outdir", str(out), str(source))
    _run(*build, "--wheel", "--outdir", str(work), str(source))
    wheel = next(out.glob("*.whl"))
    compare(wheel, next(work.glob("*.whl")))
    tools = pinned_environment("dist")
    _run(str(tools), "-m", "twine", "check", "--strict", *map(str, out.iterdir()))
    python = make_venv(work / "venv")
    install(python, *PINS, str(wheel))
    _run_recipes(python, wheel)
    name, version = wheel.name.split("-")[:2]
    sbom(tools, python, version, out / f"{name}-{version}.cdx.json")
    # Without the pins of development: the extra [sagemaker] needs an older rich.
    install(python, f"{wheel}[{','.join(extras())}]")
    sbom(tools, python, version, out / f"{name}-{version}-all-extras.cdx.json")


def source_with_urls(folder: Path, repository: str) -> Path:
    """What the sdist contains, with the project URLs, which the checkout itself does not know."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for name in tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, place)
    urls = {
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
    }
    lines = "".join(f"{name} = {json.dumps(url)}\n" for name, url in urls.items())
    (folder / "pyproject.toml").write_text(f"{text}\n[project.urls]\n{lines}", "utf-8")
    return folder


def compare(wheel: Path, expected: Path) -> None:
    """DistributionError if the wheel of the sdist lacks files, or has more."""
    files, wanted = (set(zipfile.ZipFile(path).namelist()) for path in (wheel, expected))
    if files != wanted:
        differing = ", ".join(sorted(files ^ wanted)[:5])
        raise DistributionError(f"the wheel of the sdist is not the wheel of the folder: {differing}")


def extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return sorted(project["optional-dependencies"])


def _run_recipes(python: Path, wheel: Path) -> None:
    """The wheel's own recipes, by the wheel's own `lmi`, outside of this folder."""
    lmi = str(python.with_name("lmi"))
    _run(lmi, "--version")
    recipes = sorted(python.parents[1].glob("lib/python*/site-packages/lmi_deploy/_recipes/*.yaml"))
    if not recipes:
        raise DistributionError(f"{wheel.name} contains no recipes")
    _run(lmi, "validate", "-q", *map(str, recipes), cwd=python.parents[2])


def sbom(tools: Path, python: Path, version: str, out: Path) -> None:
    program = str(tools.with_name("cyclonedx-py"))
    described = ("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--validate")
    _run(program, "environment", *described, "--sv", "1.6", "-o", str(out), str(python))
    # The program does not know a version that the build computes.
    contents = json.loads(out.read_text("utf-8"))
    contents["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/lmi-deploy@{version}"}
    out.write_text(json.dumps(contents, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _run(*command: str, cwd: Path = ROOT) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
