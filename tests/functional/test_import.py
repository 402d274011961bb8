"""`lmi import` and `lmi migrate`: what they read, what they write, and what they refuse."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from lmi_deploy.workflows import import_source
from tests.support.local_app import LocalApp
from tests.support.recipe_parsing import parse

SETTINGS = b"engine=MPI\noption.model_id=org/tiny\noption.rolling_batch=lmi-dist\noption.max_model_len=64\n"


def archive(path: str, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))


def test_serving_properties_become_a_recipe(app: LocalApp) -> None:
    Path("serving.properties").write_bytes(SETTINGS)
    result = app.lmi("import", "serving.properties", "--instance", "ml.g5.xlarge", "-o", "new.yaml")
    assert (result.code, result.out) == (0, "new.yaml\n")
    assert "lmi-dist became vllm" in result.err
    recipe = parse(Path("new.yaml").read_text(), "new.yaml")
    assert (recipe.engine, recipe.options) == ("vllm", (("max_model_len", "64"),))


def test_folder_with_weights_and_handler_becomes_a_recipe(app: LocalApp) -> None:
    folder = Path("old")
    folder.mkdir()
    for name in ("requirements.txt", "model.safetensors", "helper.py"):
        (folder / name).touch()
    (folder / "model.py").write_text("def handle(inputs): ...\n")
    found = app.lmi("import", "old", "--local", "-o", "new.yaml", "--json").result
    recipe = parse(Path("new.yaml").read_text(), "new.yaml")
    assert (recipe.name, recipe.model_id, recipe.engine) == ("old", "./old", "custom")
    assert (recipe.handler.file, recipe.requirements) == ("./old/model.py", "./old/requirements.txt")
    assert "not imported: helper.py" in found["notes"]
    assert app.lmi("validate", "new.yaml").code == 0


def test_folder_with_nothing_but_a_handler_becomes_a_recipe_that_can_be_deployed(app: LocalApp) -> None:
    Path("mine/__pycache__").mkdir(parents=True)
    Path("mine/__pycache__/model.pyc").touch()
    Path("mine/model.py").write_text("from djl_python import Output\n\ndef handle(inputs): ...\n")
    refused = app.lmi("init", "mine")
    assert refused.code == 2
    assert f"`lmi import {Path('mine').resolve()}` writes the recipe of a model.py of your own" in refused.err
    assert app.lmi("import", "mine", "--local").code == 0
    recipe = parse(Path("mine.yaml").read_text(), "mine.yaml")
    assert (recipe.model_id, recipe.engine, recipe.handler.file) == ("./mine/", "custom", "./mine/model.py")
    up = app.lmi("up", "mine.yaml", "--yes", "--no-probe")
    assert up.code == 0, up.err
    other = app.lmi("plan", "mine.yaml", "--set", "engine=accelerate")
    assert "none of the 2 files are selected as weights" in other.err
    assert "needs `engine: custom` (`lmi docs write-a-handler`)" in other.err


def test_archive_is_imported_without_unpacking_its_weights(app: LocalApp) -> None:
    files = {
        "serving.properties": SETTINGS,
        "code/model.py": b"def handle(i): ...\n",
        "model.safetensors": b"0" * 999,
    }
    archive("model.tar.gz", files)
    before = {*Path().iterdir()}
    result = app.lmi("import", "model.tar.gz", "--local")
    assert result.code == 0, result.err
    assert {path.name for path in {*Path().iterdir()} - before} == {"model.yaml", "model"}
    assert [path.name for path in Path("model").iterdir()] == ["model.py"]
    assert "GB of weights (unpack the archive" in result.err
    assert parse(Path("model.yaml").read_text(), "model.yaml").handler.file == "./model/model.py"


def test_environment_variables_are_read_from_stdin(app: LocalApp) -> None:
    result = app.lmi("import", "-", "--local", "-o", "-", stdin=b'["HF_MODEL_ID=org/tiny", "PATH=/bin"]')
    assert result.code == 0, result.err
    assert "model_id: org/tiny\n" in result.out


def test_existing_file_is_not_overwritten_without_force(app: LocalApp) -> None:
    Path("a.env").write_text("HF_MODEL_ID=org/tiny\n")
    before = Path("tiny.yaml").read_text()
    assert app.lmi("import", "a.env").code == 5
    assert Path("tiny.yaml").read_text() == before
    assert app.lmi("import", "a.env", "--force").code == 0


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("none.env", None, "No such file or directory"),
        ("words.env", b"not a variable\n", "line 1 is not NAME=VALUE"),
        ("binary.env", b"\xff\xfe\x00", "not a file of environment variables"),
        ("large.env", b"#" * (import_source.SMALL + 1), "more than 1 MiB"),
        ("bad.properties", b"a=\\u00zz\n", "malformed"),
        ("empty.properties", b"", "names no model"),
        ("cut.tar.gz", b"\x1f\x8b\x08\x00", "not a tar archive, or incomplete"),
        ("text.tar.gz", b"hello", "not a tar archive, or incomplete"),
    ],
)
def test_invalid_input_is_refused(app: LocalApp, name: str, content: bytes | None, what: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    result = app.lmi("import", name, "-o", "new.yaml")
    assert (result.code, result.out) == (2, "")
    assert what in result.err
    assert not Path("new.yaml").exists()


def test_archive_or_folder_without_a_model_is_refused(app: LocalApp) -> None:
    archive("model.tar.gz", {"notes.txt": b"hello"})
    Path("empty").mkdir()
    for source in ("model.tar.gz", "empty"):
        result = app.lmi("import", source)
        assert result.code == 2
        assert "no model.py and no weights" in result.err


RECIPE = """\
name: tiny   # mine
model_id: org/tiny
engine: vllm
endpoint: {target: local}
container: {version: 0.30.0}
options:
  paged_attention: true
"""


def test_migrate_rewrites_the_recipe_and_reports_the_changes(app: LocalApp) -> None:
    Path("tiny.yaml").write_text(RECIPE)
    checked = app.lmi("migrate", "tiny.yaml", "--to", "0.36.0", "--check")
    assert (checked.code, Path("tiny.yaml").read_text()) == (4, RECIPE)
    assert "-container: {version: 0.30.0}\n" in checked.out
    assert "+container: {version: 0.36.0}\n+options: {}\n" in checked.out
    found = app.lmi("migrate", "tiny.yaml", "--to", "0.36.0", "--json").result
    assert [change["key"] for change in found["changes"]] == [
        "container.version",
        "options",
        "options.paged_attention",
    ]
    assert found["written"] is True
    assert "name: tiny   # mine" in Path("tiny.yaml").read_text()
    assert app.lmi("validate", "tiny.yaml").code == 0
    again = app.lmi("migrate", "tiny.yaml", "--to", "0.36.0", "--check")
    assert (again.code, again.out) == (0, "tiny.yaml: nothing to change for 0.36.0\n")


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("tiny.yaml", "--to", "0.37.0"), "lmi does not know djl-lmi 0.37.0"),
        (("none.yaml", "--to", "0.36.0"), "none.yaml: No such file or directory"),
        (("a.env", "--to", "0.36.0"), "a.env"),
    ],
)
def test_migrate_refuses_an_impossible_target_or_file(
    app: LocalApp, argv: tuple[str, ...], what: str
) -> None:
    Path("a.env").write_text("HF_MODEL_ID=org/tiny\n")
    result = app.lmi("migrate", *argv)
    assert result.code == 2
    assert what in result.err
