"""The rules of .dockerignore, by the examples of Docker's documentation and of moby's own tests."""

from __future__ import annotations

import pytest

from lmi_deploy.runtimes.container.dockerignore import parse_ignore_rules


@pytest.mark.parametrize(
    ("rules", "path", "ignored"),
    [
        ("*/temp*", "somedir/temporary.txt", True),
        ("*/temp*", "somedir/temp/inside.txt", True),
        ("*/temp*", "somedir/subdir/temporary.txt", False),
        ("*/*/temp*", "somedir/subdir/temporary.txt", True),
        ("temp?", "tempa", True),
        ("temp?", "temp", False),
        ("**/*.go", "a/b/main.go", True),
        ("**/*.go", "main.go", True),
        ("*.go", "a/main.go", False),
        ("*.md\n!README.md", "README.md", False),
        ("*.md\n!README.md", "NOTES.md", True),
        ("*.md\n!README*.md\nREADME-secret.md", "README-secret.md", True),
        ("*.md\nREADME-secret.md\n!README*.md", "README-secret.md", False),
        ("/weights", "weights/model.bin", True),
        ("weights/", "weights/model.bin", True),
        ("./weights", "weights", True),
        ("weights", "more/weights", False),
        ("weights\n!weights/keep.txt", "weights/keep.txt", False),
        ("# a comment\n\n  build  ", "build/x", True),
        ("[a-c].txt", "b.txt", True),
        ("[a-c].txt", "d.txt", False),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
        ("a.b", "axb", False),
        ("dir/**", "dir/a/b", True),
        ("**", "anything/at/all", True),
        (".", "file", False),
        ("", "file", False),
    ],
)
def test_path_is_ignored_as_docker_does(rules: str, path: str, ignored: bool) -> None:
    assert parse_ignore_rules(rules).ignores(path) is ignored


def test_bad_pattern_is_named_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 2: \[z-a\]"):
        parse_ignore_rules("ok\n[z-a]\n")
