"""Our installation as wheels: their contents run without other packages."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lmi_deploy.targets.sagemaker.transfer_job import bootstrap
from lmi_deploy.targets.sagemaker.transfer_job.wheels import LEFT_OUT, packed_compiled, wheelhouse

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import boto3, huggingface_hub
import lmi_deploy.sources.hub.client, lmi_deploy.aws.s3.object_store, lmi_deploy.weights.transfer_job_shard
import lmi_deploy.cli
assert lmi_deploy.cli.__file__.startswith(sys.argv[1]), lmi_deploy.cli.__file__
assert boto3.__file__.startswith(sys.argv[1]), boto3.__file__
"""


@pytest.fixture(scope="module")
def packed() -> dict[str, bytes]:
    return wheelhouse()


@pytest.fixture(scope="module")
def unpacked(packed: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    for content in packed.values():
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            wheel.extractall(folder)
    return folder


def test_packed_wheels_run_without_installed_packages(unpacked: Path) -> None:
    # -S: without this interpreter's site-packages.
    result = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(unpacked)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_wheelhouse_is_reproducible_and_pure_python(packed: dict[str, bytes]) -> None:
    assert packed == wheelhouse()
    assert all(name.endswith("-py3-none-any.whl") for name in packed)
    assert not [name for name in packed if name.split("-")[0].replace("_", "-").lower() in LEFT_OUT]
    for content in packed.values():
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            assert not [name for name in wheel.namelist() if name.endswith((".so", ".pyc", ".pth"))]


LOAD_PROGRAM = """
import importlib.util, sys
sys.path[:0] = sys.argv[1:]
import httptools
assert httptools.__file__.startswith(sys.argv[1]), httptools.__file__
import lmi_deploy.bench.load_machine, lmi_deploy.cli.commands.bench_job, lmi_deploy.composition.load_job
import lmi_deploy.engines.inference_codec
"""


def test_client_of_a_load_job_runs_from_the_packed_wheels(unpacked: Path, tmp_path: Path) -> None:
    compiled = packed_compiled("httptools")
    assert compiled is not None
    name, content = compiled
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in name
    assert packed_compiled("httptools") == compiled
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    argv = [sys.executable, "-S", "-c", LOAD_PROGRAM, str(tmp_path), str(unpacked)]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_package_that_is_not_compiled_or_not_installed_has_no_compiled_wheel() -> None:
    assert packed_compiled("click") is None
    assert packed_compiled("no-such-package") is None


def test_machine_unpacks_the_wheels_of_its_own_python(tmp_path: Path) -> None:
    mine = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for tag, text in {"py3-none-any": "pure", f"{mine}-{mine}-manylinux_2_28_x86_64": "mine"}.items():
        _write_wheel(wheels / f"one_{text}-1.0-{tag}.whl", f"one_{text}.py")
    _write_wheel(wheels / "other-1.0-cp27-cp27m-manylinux1_x86_64.whl", "other.py")
    main = (
        "import sys, pathlib\n"
        "for place in sys.path:\n"
        "    print(*sorted(p.name for p in pathlib.Path(place).glob('o*.py')))\n"
        "print(sys.argv)\n"
    )
    with zipfile.ZipFile(wheels / "lmi_deploy-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("lmi_deploy/__init__.py", "")
        wheel.writestr("lmi_deploy/__main__.py", main)
    argv = [sys.executable, "-S", bootstrap.__file__, str(wheels), "bench", "job", "x"]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "one_mine.py one_pure.py" in result.stdout
    assert "other.py" not in result.stdout
    assert result.stdout.splitlines()[-1] == "['lmi', 'bench', 'job', 'x']"


def _write_wheel(path: Path, module: str) -> None:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(module, "")
