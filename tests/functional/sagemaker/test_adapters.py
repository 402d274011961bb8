"""LoRA adapters and draft models on SageMaker: stored like weights, copied into the artifact or mounted, kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.inference_http import ADAPTER_HEADER, HttpRequest, ResponseHead
from lmi_deploy.domain.sagemaker.resource_settings import MOUNTS, TAG_DRAFT
from lmi_deploy.domain.sagemaker.transfer_job import job_prefix, read_order
from tests.support.adapters import SHAPE, adapter_files, write_adapter
from tests.support.cloud_app import CloudApp, write_recipe
from tests.support.fakes import model_files
from tests.support.local_app import MODEL

RECIPE = f"""\
name: tiny
model_id: {MODEL}
engine: vllm
instance_type: ml.g5.xlarge
adapters: {{french: org/french, danish: org/danish}}
"""
DRAFT = json.dumps({"model": "org/draft", "num_speculative_tokens": 3})
WITH_DRAFT = RECIPE + f"options: {{speculative_config: '{DRAFT}'}}\n"


@pytest.fixture(autouse=True)
def recipe(app: CloudApp) -> None:
    app.hub.models |= {
        MODEL: model_files(**SHAPE),
        "org/french": adapter_files(),
        "org/danish": adapter_files(rank=8),
        "org/draft": model_files(**SHAPE),
    }
    write_recipe(RECIPE)


def stored(app: CloudApp) -> dict[str, bytes]:
    """The files of the one artifact of the current generation."""
    current = app.record().current
    assert current is not None
    prefix = f"artifacts/tiny/{current.artifact}/"
    objects = app.cloud.stores[app.bucket].objects
    return {key.removeprefix(prefix): content for key, content in objects.items() if key.startswith(prefix)}


def adapters_in_bucket(app: CloudApp) -> list[str]:
    return sorted(
        m.name for m in app.depot().weights.all() if m.name.startswith(("org--french", "org--danish"))
    )


def test_adapters_are_pushed_verified_and_copied_into_the_artifact(app: CloudApp) -> None:
    result = app.up()
    files = stored(app)
    assert {path for path in files if path.startswith("adapters/")} == {
        "adapters/danish/adapter_config.json",
        "adapters/danish/adapter_model.safetensors",
        "adapters/french/adapter_config.json",
        "adapters/french/adapter_model.safetensors",
    }
    assert files["adapters/french/adapter_config.json"] == adapter_files()["adapter_config.json"]
    assert b"option.enable_lora=true" in files["serving.properties"]
    assert len(adapters_in_bucket(app)) == 2
    assert "push the adapter french, org/french at " in result.err
    assert app.lmi("plan", "--exit-code").code == 0


def test_adapters_are_shared_with_another_deployment(app: CloudApp) -> None:
    app.up()
    result = app.up("--set", "name=other")
    assert "push " not in result.err
    assert "4 of the weights copied" in result.err


def test_probe_asks_each_adapter_by_its_header(app: CloudApp) -> None:
    asked: list[str] = []
    plain = app.cloud.account_state.answer

    def answer(name: str, request: HttpRequest) -> Iterator[ResponseHead | bytes]:
        asked.append(dict(request.headers).get(ADAPTER_HEADER, ""))
        return plain(name, request)

    app.cloud.account_state.answer = answer
    app.up()
    assert asked == ["", "danish", "french"]


def test_changed_adapter_is_one_update_and_rollback_restores_it(app: CloudApp) -> None:
    app.up()
    before = stored(app)
    app.hub.models["org/french"] = adapter_files(rank=16)
    result = app.up()
    assert "update the endpoint tiny" in result.err
    assert "delete the endpoint tiny" not in result.err
    assert "~ adapter.french: " in result.err
    assert stored(app) != before
    assert len(adapters_in_bucket(app)) == 3
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert stored(app) == before


def test_adapter_of_any_kept_generation_is_never_freed(app: CloudApp) -> None:
    app.up()
    app.hub.models["org/french"] = adapter_files(rank=16)
    app.up()
    names = adapters_in_bucket(app)
    for name in names:
        refused = app.lmi("weights", "rm", name, "--yes")
        assert (refused.code, "the deployment tiny uses these weights" in refused.err) == (5, True)
    assert app.lmi("gc", "--yes", "--older-than", "0").code == 0
    assert adapters_in_bucket(app) == names


def test_down_with_purge_frees_the_adapters_that_no_other_deployment_uses(app: CloudApp) -> None:
    app.up()
    app.up("--set", "name=other", "--set", "adapters={danish: org/danish}")
    assert app.lmi("down", "tiny", "--yes", "--purge").code == 0
    assert [name.partition("/")[0] for name in adapters_in_bucket(app)] == ["org--danish"]


def test_lost_copy_of_an_adapter_is_copied_again(app: CloudApp) -> None:
    app.up()
    before = stored(app)
    current = app.record().current
    assert current is not None
    app.depot().store.delete([f"artifacts/tiny/{current.artifact}/adapters/french/adapter_model.safetensors"])
    app.up()
    assert stored(app) == before


def test_failed_adapter_is_named(app: CloudApp) -> None:
    plain = app.cloud.account_state.answer

    def answer(name: str, request: HttpRequest) -> Iterator[ResponseHead | bytes]:
        if dict(request.headers).get(ADAPTER_HEADER) != "french":
            yield from plain(name, request)
            return
        yield ResponseHead(status=424, reason="", headers=())
        yield b'{"error": "LoRA adapter french not found in registry", "code": 424}'

    app.cloud.account_state.answer = answer
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "the probe of the adapter french failed" in result.err
    assert "not found in registry" in result.err


def test_draft_model_is_stored_and_mounted(app: CloudApp) -> None:
    write_recipe(WITH_DRAFT)
    app.up()
    (model,) = app.cloud.account_state.models.values()
    (mount,) = model.settings.mounts
    assert mount.channel == "draft"
    assert "/weights/org--draft/" in mount.uri
    properties = stored(app)["serving.properties"].decode()
    assert f'"model": "{MOUNTS}/draft"' in properties
    assert app.lmi("plan", "--exit-code").code == 0


def test_draft_model_of_a_running_endpoint_without_a_record_is_kept(app: CloudApp) -> None:
    write_recipe(WITH_DRAFT)
    app.up()
    store = app.depot().store
    store.delete([found.key for found in store.list("deployments/")])
    (name,) = [m.name for m in app.depot().weights.all() if m.name.startswith("org--draft")]
    refused = app.lmi("weights", "rm", name, "--yes")
    assert refused.code == 5


def test_tag_of_a_removed_draft_model_is_removed(app: CloudApp) -> None:
    write_recipe(WITH_DRAFT)
    app.up()
    assert TAG_DRAFT in dict(app.cloud.account_state.tags[app.cloud.account_state.arn("endpoint", "tiny")])
    write_recipe(RECIPE)
    app.up()
    assert TAG_DRAFT not in dict(
        app.cloud.account_state.tags[app.cloud.account_state.arn("endpoint", "tiny")]
    )
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert TAG_DRAFT in dict(app.cloud.account_state.tags[app.cloud.account_state.arn("endpoint", "tiny")])


def test_policies_cover_the_draft_model_and_the_adapters(app: CloudApp) -> None:
    write_recipe(WITH_DRAFT)
    policies = app.lmi("iam", "tiny.yaml", "--json")
    assert policies.code == 0, policies.err
    assert "weights/org--draft/*" in policies.out
    assert "weights/org--french/*" in policies.out
    assert "manifests/org--danish/*" in policies.out


def test_adapters_that_are_too_large_for_the_artifact_are_refused(app: CloudApp) -> None:
    plain = app.hub.listing

    def large(model_id: str, revision: str) -> ModelListing:
        found = plain(model_id, revision)
        embeddings = replace(found.files[0], path="new_embeddings.safetensors", size=6_000_000_000)
        return replace(found, files=(*found.files, embeddings)) if model_id == "org/french" else found

    app.hub.listing = large  # type: ignore[method-assign]
    result = app.lmi("plan")
    assert result.code == 2
    assert "adapters: 6.00 GB in all; at most 5 GB" in result.err


BY_JOB = WITH_DRAFT + "weights: {via: job}\n"
ALL = {MODEL, "org/danish", "org/french", "org/draft"}
MOVE_ALL = (
    f"move {MODEL}, the adapter danish (org/danish), the adapter french (org/french) and the draft model (org/draft) "
    "to the bucket by a job on 1 x ml.m5.4xlarge"
)


def complete(app: CloudApp) -> set[str]:
    """The models in the bucket whose files are as their manifests say."""
    weights = app.depot().weights
    return {found.model_id for found in weights.all() if weights.flaws(found.name) == ()}


def test_one_job_moves_the_model_its_adapters_and_the_draft_model(app: CloudApp) -> None:
    write_recipe(BY_JOB)
    planned = app.lmi("plan").out
    assert MOVE_ALL in planned
    assert "transfer job: $" in planned
    assert "push " not in planned
    app.up()
    assert len(app.cloud.jobs.started) == 1
    assert complete(app) == ALL
    assert app.lmi("plan", "--exit-code").code == 0


def test_job_moves_only_what_the_bucket_lacks(app: CloudApp) -> None:
    write_recipe(BY_JOB)
    app.up()
    app.hub.models["org/french"] = adapter_files(rank=16)
    planned = app.lmi("plan").out
    assert "move the adapter french (org/french) to the bucket by a job" in planned
    assert "transfer job: $" in planned
    result = app.lmi("plan", "--max-hourly", "1.5")
    assert (result.code, "the transfer job of tiny costs" in result.err) == (5, True), result.err
    app.up()
    assert len(adapters_in_bucket(app)) == 3


def test_adapter_of_a_folder_goes_from_this_machine_beside_a_job(app: CloudApp) -> None:
    folder = app.root / "own"
    write_adapter(folder, rank=8)
    write_recipe(BY_JOB.replace("danish: org/danish", f"own: {folder}"))
    planned = app.lmi("plan").out
    assert (
        f"move {MODEL}, the adapter french (org/french) and the draft model (org/draft) to the bucket"
        in planned
    )
    assert f"push the adapter own, {folder} at " in planned
    app.up()
    assert complete(app) == {MODEL, "org/french", "org/draft", str(folder)}
    policies = app.lmi("iam", "tiny.yaml", "--part", "job")
    assert policies.code == 0, policies.err
    assert "weights/org--french/*" in policies.out
    assert "manifests/org--draft/*" in policies.out
    assert "weights/own/*" not in policies.out


def test_failed_job_is_continued_with_what_is_missing(app: CloudApp) -> None:
    write_recipe(BY_JOB)
    jobs, work = app.cloud.jobs, app.cloud.jobs.work

    def only_the_first(job: str) -> str:
        services = app.depot()
        found = services.store.get(f"{job_prefix(job)}in/order.json")
        assert found is not None
        order = read_order(found[0])
        part = replace(order, listings=order.listings[:1])
        list(services.weights.push_shard(part, app.hub, number=0, count=1, key=job))
        return "out of disk"

    jobs.work = only_the_first
    failed = app.lmi("up", "--yes")
    assert (failed.code, "out of disk" in failed.err) == (1, True), failed.err
    assert complete(app) == {MODEL}
    jobs.work = work
    result = app.up()
    assert f"move {MODEL}" not in result.err
    assert complete(app) == ALL
    first, second = jobs.started
    assert second == f"{first}-2"


def test_weights_of_a_running_job_are_not_freed(app: CloudApp) -> None:
    write_recipe(BY_JOB)
    app.cloud.jobs.seconds = 1e9
    assert app.lmi("up", "--yes").code == 1
    (job,) = app.cloud.jobs.started
    app.run_transfer_job(job)
    for name in adapters_in_bucket(app):
        refused = app.lmi("weights", "rm", name, "--yes")
        assert (refused.code, "the deployment tiny uses these weights" in refused.err) == (5, True)


def test_plan_names_a_gated_adapter_that_the_job_has_no_token_for(app: CloudApp) -> None:
    write_recipe(BY_JOB)
    plain = app.hub.listing

    def gated(model_id: str, revision: str) -> ModelListing:
        return replace(plain(model_id, revision), gated=model_id == "org/french")

    app.hub.listing = gated  # type: ignore[method-assign]
    assert "org/french: gated, and the job has no token" in app.lmi("plan").err
