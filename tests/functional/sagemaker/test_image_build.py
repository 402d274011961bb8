"""`container.build` on SageMaker: one image for one content, pushed once, and removed when it is no longer used."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.domain.record import KEPT_GENERATIONS
from lmi_deploy.domain.sagemaker.resource_settings import TAG
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

BUILT = RECIPE + "container: {build: ./image}\n"
REPOSITORY = "lmi/tiny"


@pytest.fixture
def folder(app: CloudApp) -> Path:
    found = app.root / "image"
    found.mkdir()
    (found / "Dockerfile").write_text("FROM scratch\n")
    write_recipe(BUILT)
    return found


def steps(app: CloudApp, *argv: str) -> list[str]:
    ran = app.lmi(*argv, "--json")
    assert ran.code == 0, ran.err
    return [line["key"].partition(":")[0] for line in ran.lines if line["event"] == "finished"]


def images(app: CloudApp) -> list[str]:
    return sorted(app.cloud.images.images.get(REPOSITORY, {}))


def test_image_is_built_and_pushed_once_and_served(app: CloudApp, folder: Path) -> None:
    planned = app.lmi("plan")
    assert "built for linux/amd64 from 1 file" in planned.out
    assert app.cloud.builder.builds == []
    assert steps(app, "up", "--yes")[:4] == ["MakeBucket", "BuildImage", "MakeRepository", "PushImage"]
    (tag,) = images(app)
    model = next(iter(app.cloud.account_state.models.values()))
    assert model.settings.image == f"111122223333.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:{tag}"
    assert dict(app.cloud.images.tags[REPOSITORY])[TAG] == "tiny"
    assert app.lmi("plan", "--exit-code").code == 0
    write_recipe(BUILT + "options: {dtype: fp32}\n")
    assert "already in ECR" in app.lmi("plan").out
    app.up()
    assert len(app.cloud.builder.builds) == 1


def test_changed_folder_gets_another_image_and_old_ones_go_with_their_generation(
    app: CloudApp, folder: Path
) -> None:
    for number in range(KEPT_GENERATIONS + 1):
        (folder / "Dockerfile").write_text(f"FROM scratch\nLABEL number={number}\n")
        app.up()
    assert len(app.cloud.builder.builds) == KEPT_GENERATIONS + 1
    assert len(images(app)) == KEPT_GENERATIONS
    assert app.lmi("plan", "--exit-code").code == 0
    assert app.lmi("rollback", "tiny", "--yes").code == 0


def test_down_keeps_the_repository_and_purge_deletes_it(app: CloudApp, folder: Path) -> None:
    app.up()
    shown = app.lmi("down", "tiny", "--yes")
    assert shown.code == 0
    assert "lmi/tiny stays in ECR" in shown.out + shown.err
    assert len(images(app)) == 1
    assert "BuildImage" not in steps(app, "up", "--yes")
    assert "DeleteRepository" in steps(app, "down", "tiny", "--yes", "--purge")
    assert app.cloud.images.tags == {}


def test_interrupted_push_does_not_build_again(app: CloudApp, folder: Path) -> None:
    app.cloud.builder.registry = None
    assert app.lmi("up", "--yes").code == 1
    assert app.cloud.account_state.models == {}
    app.cloud.builder.registry = app.cloud.images
    assert "already built on this machine" in app.lmi("plan").out
    done = steps(app, "up", "--yes")
    assert "PushImage" in done
    assert "BuildImage" not in done


def test_failed_build_leaves_nothing_and_says_why(app: CloudApp, folder: Path) -> None:
    app.cloud.builder.failure = "COPY nothing: no such file"
    failed = app.lmi("up", "--yes")
    assert failed.code == 1
    assert "COPY nothing: no such file" in failed.err
    assert app.cloud.images.tags == {}
    assert app.cloud.account_state.models == {}
    assert app.lmi("down", "tiny", "--yes").code == 0


def test_manifest_that_sagemaker_refuses_is_not_kept(app: CloudApp, folder: Path) -> None:
    app.cloud.builder.manifest = "application/vnd.oci.image.index.v1+json"
    failed = app.lmi("up", "--yes")
    assert failed.code == 1
    assert "image.index" in failed.err
    assert images(app) == []
    app.cloud.builder.manifest = "application/vnd.docker.distribution.manifest.v2+json"
    app.up()


def test_repository_of_someone_else_is_refused_and_untouched(app: CloudApp, folder: Path) -> None:
    app.cloud.images.create(REPOSITORY, (("team", "theirs"),))
    refused = app.lmi("up", "--yes")
    assert refused.code == 5
    assert "lmi/tiny without the tag" in refused.err
    assert app.cloud.builder.builds == []
    assert app.lmi("down", "tiny", "--yes", "--purge").code in (0, 5)
    assert app.cloud.images.tags == {REPOSITORY: (("team", "theirs"),)}


def test_compile_job_runs_in_the_image_that_lmi_pushes_before_it(app: CloudApp, folder: Path) -> None:
    Path("compile.py").write_text("print()\n")
    write_recipe(BUILT + "compile: {script: compile.py, instance_type: ml.m5.4xlarge}\n")
    app.lmi("compile", "--yes", "tiny.yaml")
    ((settings, _),) = app.cloud.jobs.started.values()
    (tag,) = images(app)
    assert settings.image.endswith(f"/{REPOSITORY}:{tag}")


def test_missing_container_cli_is_an_error_before_the_first_change(app: CloudApp, folder: Path) -> None:
    app.cloud.builder.why_lacking = "none of docker, podman, finch is on PATH"
    refused = app.lmi("up", "--yes")
    assert refused.code == 1
    assert "none of docker, podman, finch is on PATH" in refused.err
    assert app.cloud.stores == {}


def test_platform_follows_the_instance_type(app: CloudApp, folder: Path) -> None:
    own_server = BUILT.replace("accelerate", "custom") + "probe: {body: '{}'}\n"
    write_recipe(own_server.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.c7g.xlarge"))
    assert "built for linux/arm64" in app.lmi("plan").out
    write_recipe(own_server.replace("ml.g6.xlarge", "ml.c7g.xlarge"))
    refused = app.lmi("plan")
    assert refused.code == 2
    assert "need images of two platforms" in refused.err


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "{build: ./image, image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/a:1}",
            "cannot be combined with",
        ),
        ("{build: ./image, version: 0.36.0}", "cannot be combined with container.version"),
        ("{build: ./nowhere}", "there is no such folder"),
        ("{build: ./image, dockerfile: Dockerfile.gpu}", "Dockerfile.gpu: No such file"),
        ("{build: ./image, dockerfile: ../Dockerfile}", "has a part '..'"),
        ("{build: ./image, build_args: {HF_TOKEN: x}}", "looks like a secret"),
        ("{build: ./image, build_args: {bad-name: x}}", "not a valid name of a build argument"),
        ("{build_args: {A: x}}", "has no effect without container.build"),
    ],
)
def test_bad_keys_are_named(app: CloudApp, folder: Path, keys: str, message: str) -> None:
    write_recipe(RECIPE + f"container: {keys}\n")
    refused = app.lmi("plan")
    assert refused.code == 2
    assert message in refused.err
