"""`lmi invoke --async`, `--detach`, `--result`: waited for, fetched later, failed, interrupted, refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fakes import FakeClock

ASYNC = RECIPE + "endpoint:\n  asynchronous: {}\n"


@pytest.fixture(autouse=True)
def deployed(app: CloudApp) -> None:
    write_recipe(ASYNC)
    app.up()
    app.cloud.account_state.calls.clear()


class Impatient(FakeClock):
    """Ctrl-C in the third second."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.passed > 3:
            raise KeyboardInterrupt


def broken(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
    return [ResponseHead(status=400, reason="Bad Request", headers=()), b"prompt is too long: 9000 tokens"]


@pytest.mark.parametrize("options", [("--async",), ()])
def test_response_is_printed_whether_or_not_the_option_is_given(
    app: CloudApp, options: tuple[str, ...]
) -> None:
    result = app.lmi("invoke", "tiny", "Hello", *options)
    assert (result.code, result.out) == (0, "OK\n"), result.err
    assert "is in the queue of tiny" in result.err
    assert "invoke_async" in app.cloud.account_state.calls
    assert "invoke" not in app.cloud.account_state.calls


def test_detached_request_is_fetched_later(app: CloudApp) -> None:
    app.cloud.account_state.queued = True
    sent = app.lmi("invoke", "tiny", "Hello", "--async", "--detach")
    inference_id = sent.out.strip()
    assert len(inference_id) == 32
    assert f"`lmi invoke tiny --region us-east-1 --result {inference_id}` fetches the response" in sent.err
    pending = app.lmi("invoke", "tiny", "--result", inference_id)
    assert (pending.code, pending.out) == (4, "")
    assert "no response yet" in pending.err
    bucket = "lmi-111122223333-us-east-1-an"
    answer = b'{"choices": [{"message": {"content": "Later"}, "finish_reason": "stop"}]}'
    app.cloud.opened(bucket).put(f"async/tiny/output/{inference_id}.out", answer)
    done = app.lmi("invoke", "tiny", "--result", inference_id)
    assert (done.code, done.out) == (0, "Later\n")
    assert app.lmi("invoke", "tiny", "--result", inference_id, "--raw").code == 0


def test_json_has_id_status_and_answer(app: CloudApp) -> None:
    done = app.lmi("invoke", "tiny", "Hello", "--async", "--json").result
    assert (done["ok"], done["status"], done["answer"]) == (True, "done", "OK")
    again = app.lmi("invoke", "tiny", "--result", done["inference_id"], "--json").result
    assert again["answer"] == "OK"
    sent = app.lmi("invoke", "tiny", "Hello", "--detach", "--json").result
    assert sent["status"] == "pending"
    assert sent["output"].endswith(f"{sent['inference_id']}.out")


def test_failure_is_shown_with_its_text(app: CloudApp) -> None:
    app.cloud.account_state.answer = broken
    result = app.lmi("invoke", "tiny", "Hello", "--async")
    assert result.code == 1
    assert "tiny: the request failed" in result.err
    assert "prompt is too long: 9000 tokens" in result.err


def test_request_without_a_response_has_expired_after_its_limits(app: CloudApp) -> None:
    app.cloud.account_state.queued = True
    options = ("--detach", "--request-ttl", "60", "--invocation-timeout", "40")
    inference_id = app.lmi("invoke", "tiny", "Hello", *options).out.strip()
    app.clock.sleep(timedelta(seconds=401).total_seconds())
    result = app.lmi("invoke", "tiny", "--result", inference_id)
    assert result.code == 1
    assert "no response within 100 s, so the request has expired" in result.err


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("--result", "nonsense"), 2, "not an inference id"),
        (("--result", "0" * 32), 1, "tiny: no request 0000"),
        (("Hi", "--result", "0" * 32), 2, "--result and a new request cannot be combined"),
        (("Hi", "--async", "--stream"), 2, "an asynchronous request has no stream"),
        (("Hi", "--stream"), 2, "an asynchronous request has no stream"),
        (("Hi", "--async", "--invocation-timeout", "3601"), 2, "3601"),
        (("Hi", "--async", "--request-ttl", "59"), 2, "59"),
    ],
)
def test_wrong_use_is_refused_and_nothing_is_sent(
    app: CloudApp, argv: tuple[str, ...], code: int, words: str
) -> None:
    result = app.lmi("invoke", "tiny", *argv)
    assert (result.code, result.out) == (code, ""), result.err
    assert words in result.err
    assert "invoke_async" not in app.cloud.account_state.calls


def test_deployment_that_answers_directly_is_named(app: CloudApp) -> None:
    write_recipe(RECIPE)
    app.up()
    result = app.lmi("invoke", "tiny", "Hello", "--async")
    assert result.code == 2
    assert "tiny: it is not asynchronous" in result.err


def test_interrupt_says_how_to_fetch_it_later(app: CloudApp) -> None:
    app.cloud.account_state.queued = True
    app.clock = Impatient()
    result = app.lmi("invoke", "tiny", "Hello", "--async")
    assert result.code == 130
    assert "interrupted: the request goes on" in result.err
    assert "--result" in result.err


def test_chat_names_the_command_for_such_a_deployment(app: CloudApp) -> None:
    result = app.lmi("chat", "tiny")
    assert result.code == 2
    assert "lmi invoke tiny --region us-east-1 --async" in result.err
