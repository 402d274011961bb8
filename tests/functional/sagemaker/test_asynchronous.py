"""`endpoint.asynchronous`: deployed and probed through S3, changed, refused first, and deleted without a trace."""

from __future__ import annotations

import re
from dataclasses import replace

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

BUCKET = "lmi-111122223333-us-east-1-an"
ASYNC = RECIPE + "endpoint:\n  asynchronous: {max_concurrent_per_instance: 2}\n"
OUTPUT = f"s3://{BUCKET}/async/tiny/output/"


def planned(app: CloudApp) -> list[str]:
    return [action["key"].partition(":")[0] for action in app.lmi("plan", "--json").result["actions"]]


def stored(app: CloudApp) -> list[str]:
    return [each.key for each in app.cloud.opened(BUCKET).list("async/")]


def test_endpoint_config_queues_and_the_probe_leaves_no_object(app: CloudApp) -> None:
    write_recipe(ASYNC)
    app.up()
    (config,) = app.cloud.account_state.configs.values()
    assert config.settings.asynchronous is not None
    assert config.settings.asynchronous.output == OUTPUT
    assert config.settings.asynchronous.max_concurrent_per_instance == 2
    assert "invoke_async" in app.cloud.account_state.calls
    assert "invoke" not in app.cloud.account_state.calls
    assert stored(app) == []
    assert planned(app) == []
    assert OUTPUT in app.lmi("status", "tiny").out


def test_proxy_is_refused_and_calls_go_through_the_queue(app: CloudApp) -> None:
    """tests/e2e/test_printed_calls.py runs what is printed."""
    write_recipe(ASYNC)
    app.up()
    refused = app.lmi("proxy", "tiny")
    assert (refused.code, refused.out) == (2, "")
    assert re.search(r"next: ask by `lmi invoke tiny .*--async`", refused.err)
    calls = app.lmi("status", "tiny", "--calls").out.partition("Invoke it:")[2]
    assert "aws sagemaker-runtime invoke-endpoint-async" in calls
    assert "OpenAI" not in calls


def test_up_does_not_wake_an_endpoint_without_instances(app: CloudApp) -> None:
    scaling = "  autoscaling: {min: 0, max: 1, backlog_per_instance: 5}\n"
    write_recipe(ASYNC + scaling)
    app.up()
    served = app.cloud.account_state.endpoints["tiny"]
    served.observed = replace(served.observed, count=0, desired_count=0)
    app.cloud.account_state.calls.clear()
    again = app.up()
    assert "tiny was not asked: it has no instance now, and a request starts one" in again.err
    assert "invoke_async" not in app.cloud.account_state.calls


def test_changed_concurrency_is_one_update_with_a_new_config(app: CloudApp) -> None:
    write_recipe(ASYNC)
    app.up()
    write_recipe(ASYNC.replace("instance: 2", "instance: 3"))
    actions = planned(app)
    assert "CreateEndpointConfig" in actions
    assert "UpdateEndpoint" in actions
    assert "CreateModel" not in actions


def test_probe_that_fails_shows_the_text_of_the_failure(app: CloudApp) -> None:
    def broken(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
        return [ResponseHead(status=400, reason="Bad Request", headers=()), b"CUDA out of memory"]

    app.cloud.account_state.answer = broken
    write_recipe(ASYNC)
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "CUDA out of memory" in result.err


def test_role_that_may_not_write_is_refused_before_anything_is_created(app: CloudApp) -> None:
    write_recipe(ASYNC)
    app.cloud.roles.denied.add("s3:PutObject")
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert f"s3:PutObject on arn:aws:s3:::{BUCKET}/async/tiny/*" in result.err
    assert app.cloud_resources() == []


def test_down_deletes_requests_and_responses_of_this_deployment_alone(app: CloudApp) -> None:
    write_recipe(ASYNC)
    app.up()
    store = app.cloud.opened(BUCKET)
    for key in ("async/tiny/input/1", "async/tiny/output/1.out", "async/tiny-2/output/1.out"):
        store.put(key, b"x")
    result = app.lmi("down", "tiny", "--yes")
    assert "delete the asynchronous requests and responses of tiny" in result.err
    assert stored(app) == ["async/tiny-2/output/1.out"]


def test_output_of_the_users_own_is_kept(app: CloudApp) -> None:
    write_recipe(ASYNC.replace("asynchronous: {", "asynchronous: {output: 's3://answers/tiny/', "))
    app.cloud.account.make_bucket("answers", tags=(), kms_key="")
    app.up()
    assert [each.key.partition("/")[0] for each in app.cloud.opened("answers").list("")] == ["tiny"]
    app.lmi("down", "tiny", "--yes")
    assert list(app.cloud.opened("answers").list(""))
    assert stored(app) == []


def test_output_among_our_own_objects_is_a_mistake_of_the_recipe(app: CloudApp) -> None:
    write_recipe(ASYNC.replace("asynchronous: {", f"asynchronous: {{output: 's3://{BUCKET}/async/', "))
    result = app.lmi("validate")
    assert result.code == 2
    assert "endpoint.asynchronous.output: lmi keeps its own objects there" in result.err + result.out
