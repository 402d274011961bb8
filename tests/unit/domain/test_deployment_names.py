"""Names follow from content: the same on every machine and in every run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.deployment_artifact import Artifact, ArtifactFile
from lmi_deploy.domain.deployment_names import MAX_NAME, NAME, name_error
from lmi_deploy.domain.settings_digest import canonical, digest, digest_tag, short


@digest_tag("Noun")
@dataclass(frozen=True)
class Noun:
    first: str
    second: tuple[int, ...] = ()


@digest_tag("Other")
@dataclass(frozen=True)
class Other:
    first: str
    second: tuple[int, ...] = ()


def test_digest_never_changes() -> None:
    assert digest(Noun("ä", (1, 2))) == "122b5a453b9ae0d9174d07e34e1ed373a14b5419fd1ddc1ab2b63d0fb978f012"
    assert short(digest({"b": 1, "a": [None, True, 1.5]})) == "26ddf64c7b"


def test_renamed_class_with_same_tag_keeps_its_digest() -> None:
    @digest_tag("Noun")
    @dataclass(frozen=True)
    class Renamed(Noun):
        pass

    assert digest(Renamed("ä", (1, 2))) == digest(Noun("ä", (1, 2)))


def test_class_without_tag_has_no_digest() -> None:
    @dataclass(frozen=True)
    class Untagged(Noun):
        pass

    with pytest.raises(KeyError, match="__digest_tag__"):
        canonical(Untagged("a"))


def test_digest_ignores_mapping_order_and_respects_list_order() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert digest((1, 2)) == digest([1, 2])


def test_equal_fields_of_different_classes_have_different_digests() -> None:
    assert digest(Noun("a")) != digest(Other("a"))
    assert digest(b"a") != digest("a")


def test_artifact_digest_never_changes() -> None:
    files = (ArtifactFile("model.py", b"x"), ArtifactFile("serving.properties", b"engine=Python\n"))
    assert Artifact(files).digest[:16] == "f6dce50704400ea5"


@given(st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=4)), max_size=3))
def test_artifact_digest_depends_on_file_boundaries(files: list[tuple[str, bytes]]) -> None:
    created = Artifact(tuple(ArtifactFile(path, content) for path, content in files))
    if files:
        path, content = files[0]
        moved = [ArtifactFile(path + content.decode("latin-1"), b""), *created.files[1:]]
        assert (Artifact(tuple(moved)).digest == created.digest) == (tuple(moved) == created.files)


@pytest.mark.parametrize("name", ["a", "a1", "tiny-llama-2", "0", "a" * MAX_NAME])
def test_valid_deployment_name_is_accepted(name: str) -> None:
    assert name_error(name) == ""


@pytest.mark.parametrize("name", ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "a/b", "..", "a\n", "ä"])
def test_invalid_deployment_name_is_refused(name: str) -> None:
    assert "lower case letters, digits and single dashes" in name_error(name)


def test_too_long_name_reports_its_length() -> None:
    assert name_error("a" * 49) == "49 characters, at most 48"


@given(st.from_regex(NAME, fullmatch=True))
def test_valid_name_stays_inside_its_folder(name: str) -> None:
    if not name_error(name):
        assert "/" not in name
        assert not name.startswith(".")
