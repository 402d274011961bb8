"""`lmi invoke --image`, `--adapter`, and `lmi token` where there is no SageMaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_servers import Behaviour
from tests.support.local_app import LocalApp

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(autouse=True)
def deployed(app: LocalApp) -> None:
    app.servers.next.append(Behaviour())
    assert app.lmi("up", "--yes").code == 0
    Path("cat.png").write_bytes(PNG)
    Path("cat.gif").write_bytes(b"GIF89a and so on")
    Path("empty.png").write_bytes(b"")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (
            ("--image", "cat.gif", "hi"),
            2,
            "cat.gif: not a PNG, JPEG or WebP image: it begins with 47 49 46 38",
        ),
        (
            ("--image", "empty.png", "hi"),
            2,
            "empty.png: not a PNG, JPEG or WebP image: it begins with nothing",
        ),
        (("--image", "absent.png", "hi"), 1, "absent.png: No such file"),
        (("--image", "cat.png", "--plain", "hi"), 2, "--image and --plain cannot be combined"),
        (("--image", "cat.png", "--body", "{}"), 2, "--body and --image cannot be combined"),
        (("--image", "cat.png", "hi"), 2, "takes no images: its handler text-generation reads text only"),
        (("--adapter", "sql", "hi"), 2, "this deployment has no adapters: its handler is text-generation"),
        (("--adapter", "sql", "--body", "{}"), 2, "this deployment has no adapters"),
        (("--adapter", "a;b", "hi"), 2, "--adapter 'a;b': not a name of 1 to 256 ASCII characters"),
        (("--adapter", "a\r\nb", "hi"), 2, "--adapter 'a\\r\\nb': not a name"),
    ],
)
def test_unsupported_request_is_refused_before_it_is_sent(
    app: LocalApp, argv: tuple[str, ...], code: int, words: str
) -> None:
    result = app.lmi("invoke", "tiny", *argv)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_request_over_the_size_limit_is_not_sent(app: LocalApp) -> None:
    Path("large.json").write_bytes(b" " * 67_108_865)
    result = app.lmi("invoke", "tiny", "--body", "@large.json")
    assert result.code == 2
    assert "the request has 67,108,865 bytes; the server accepts at most 67,108,864" in result.err


def test_server_on_this_machine_has_no_token(app: LocalApp) -> None:
    result = app.lmi("token", "tiny")
    assert (result.code, result.out) == (2, "")
    assert "run `lmi proxy tiny`" in result.err
    assert app.lmi("token", "nobody", "--target", "local").code == 1
