"""What lmi writes to serving.properties is what its readers read: Java's Properties, ours, the partition
parser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmi_deploy.domain.java_properties import parse_properties, write_line, write_properties
from tests.support.hypothesis_settings import examples
from tests.support.java_properties import JavaProperties, java, java_properties

HARD = " \t\n\r\f\\=:#!u0aZ.\x00\x01\x7f\x85\xa0éß\u2028\ufeff\uffff\U0001f600\U0010ffff"
TEXT = st.text(HARD, max_size=12) | st.text(max_size=8)
PAIRS = st.dictionaries(TEXT, TEXT, max_size=4)
FILES = st.lists(
    st.sampled_from([*" \t\f\r\n\\=:#!abu", "\\u00e9", "\\ud83d\\ude00", "\\n", "key", "=value", "\r\n"]),
    max_size=40,
).map(lambda chunks: "".join(chunks).encode("latin-1"))
MANY = examples(1000)


@pytest.fixture(scope="module")
def jvm() -> Iterator[JavaProperties]:
    command = java()
    if command is None:
        pytest.skip("no working java on the PATH: only our own parser is asked")
    with java_properties(command) as running:
        yield running


@MANY
@given(PAIRS)
@example({"": ""})
@example({" a": " b "})
@example({"#a!": "\\"})
@example({"k": "\U0001f600\u2028"})
def test_written_properties_read_back_equal(pairs: dict[str, str]) -> None:
    raw = write_properties(pairs.items())
    assert parse_properties(raw) == pairs
    assert raw.count(b"\n") == len(pairs)
    assert all(32 <= byte < 127 or byte == 10 for byte in raw)


@MANY
@given(PAIRS)
@example({"": ""})
@example({"k": "\U0001f600\u2028"})
def test_java_reads_what_was_written(jvm: JavaProperties, pairs: dict[str, str]) -> None:
    assert jvm.read(write_properties(pairs.items())) == pairs


@MANY
@given(FILES)
@example(b"\\")
@example(b"\\\n")
@example(b"\\\r\n")
@example(b"a\\\r\n")
@example(b"\\\n#x\n")
def test_any_file_is_read_as_java_reads_it(jvm: JavaProperties, raw: bytes) -> None:
    try:
        own: dict[str, str] | None = parse_properties(raw)
    except ValueError:
        own = None
    assert own == jvm.read(raw)


def partition(text: str) -> dict[str, str]:
    """The server's own second parser, as its grammar is documented: `#` in column 0, first `=`, both sides
    stripped."""
    pairs = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise ValueError(line)
        pairs[key.strip()] = value.strip()
    return pairs


def is_unambiguous(key: str, value: str) -> bool:
    """Whether the server's own partition parser (no escapes, strips both sides) reads this pair as Java does."""
    line = write_line(key, value)
    if line.startswith("#") or "=" not in line or "\\" in line:
        return False
    left, right = line.split("=", 1)
    return (left.strip(), right.strip()) == (key, value) and all(" " <= char <= "~" for char in line)


@MANY
@given(TEXT, TEXT)
@example("a", "b")
@example("#a", "b")
@example("a", "b ")
@example("a", "")
def test_unambiguous_lines_are_read_equally_by_both_readers(key: str, value: str) -> None:
    line = write_line(key, value)
    if is_unambiguous(key, value):
        assert partition(line) == parse_properties(line.encode()) == {key: value}


@MANY
@given(st.text("abcXYZ019._", min_size=1, max_size=20), st.text('abc 0/.:=-{}"', max_size=30).map(str.strip))
def test_ordinary_pairs_are_unambiguous(key: str, value: str) -> None:
    assert is_unambiguous(key, value)
