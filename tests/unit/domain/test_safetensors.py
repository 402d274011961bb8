"""Headers of safetensors files: complete ones are counted, others refused with the reason."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.safetensors import LENGTH_BYTES, MAX_HEADER, header_length, parameters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def tensor(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def counted(tensors: object, body: int) -> dict[str, int]:
    header = json.dumps(tensors).encode()
    return parameters(header, LENGTH_BYTES + len(header) + body)


def test_parameters_are_counted_by_type() -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "b": tensor("BF16", [2, 3], 4, 16),
        "a": tensor("F32", [1], 0, 4),
        "empty": tensor("F32", [0], 16, 16),
        "half": tensor("F4", [4], 16, 18),
    }
    assert counted(tensors, 18) == {"F32": 1, "BF16": 6, "F4": 4}


def test_unknown_tensor_type_is_counted() -> None:
    assert counted({"a": tensor("Q9", [3], 0, 7)}, 7) == {"Q9": 3}


def test_file_without_tensors_has_no_parameters() -> None:
    assert counted({}, 0) == {}


@pytest.mark.parametrize(
    ("tensors", "body", "words"),
    [
        ({"a": tensor("F32", [1], 0, 4)}, 3, "tensors need 4 bytes, the file has 3: cut or padded"),
        ({"a": tensor("F32", [1], 0, 4)}, 5, "tensors need 4 bytes, the file has 5: cut or padded"),
        ({"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [1], 2, 6)}, 6, "b starts at 2, expected 4"),
        ({"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [1], 8, 12)}, 12, "b starts at 8, expected 4"),
        ({"a": tensor("F32", [2], 0, 4)}, 4, "tensor a: 2 x F32 in 4 bytes"),
        ({"a": tensor("Q9", [1], 0, -4)}, 0, "tensor a: invalid dtype"),
        ({"a": tensor("Q9", [2], 0, 8), "b": tensor("Q9", [2], 8, 4)}, 4, "tensor b: invalid dtype"),
        ({"a": tensor("F32", [-1], 0, 4)}, 4, "tensor a: invalid dtype"),
        ({"a": tensor("F32", [True], 0, 4)}, 4, "tensor a: invalid dtype"),
        ({"a": {"dtype": "F32"}}, 4, "tensor a: invalid dtype"),
        ({"a": 5}, 4, "tensor a: invalid dtype"),
        ({"a": tensor("F32", [1], 0, 4), "b": None}, 4, "tensor b: invalid dtype"),
        (
            {"a": {**tensor("F32", [1], 0, 4), "data_offsets": ["0", 4]}, "b": tensor("F32", [1], 0, 4)},
            4,
            "invalid dtype",
        ),
        ({"a": {**tensor("F32", [1], 0, 4), "data_offsets": None}}, 4, "tensor a: invalid dtype"),
        ({"a": {**tensor("F32", [1], 0, 4), "shape": 3}}, 4, "tensor a: invalid dtype"),
        ({"a": tensor("F32", [10**30] * 70, 0, 4)}, 4, "tensor a: invalid dtype"),
        ([], 0, "the header is not a JSON object"),
    ],
)
def test_inconsistent_header_is_refused(tensors: object, body: int, words: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        counted(tensors, body)
    assert words in str(refused.value)


@pytest.mark.parametrize("header", [b"", b"{", b"\xff\xff", b"[" * 100_000])
def test_header_that_is_not_json_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parameters(header, 1_000_000)


@given(tensors=st.dictionaries(st.text(max_size=3), JSON, max_size=4), body=st.integers(0, 100))
def test_any_header_raises_at_most_a_value_error(tensors: dict[str, Any], body: int) -> None:
    with suppress(ValueError):
        counted(tensors, body)


@pytest.mark.parametrize(
    ("first", "size", "words"),
    [
        (b"", 0, "0 bytes: too short"),
        (b"1234567", 7, "7 bytes: too short"),
        ((1000).to_bytes(8, "little"), 500, "header length 1000 in a file of 500 bytes"),
        ((MAX_HEADER + 1).to_bytes(8, "little"), 10**12, "not a safetensors file, or cut"),
        ((1).to_bytes(8, "little"), 100, "header length 1 "),
        (b"version https://git-lfs.github.com/spec/v1\n", 134, "a Git LFS pointer instead of the file"),
    ],
)
def test_impossible_header_length_is_refused(first: bytes, size: int, words: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        header_length(first, size)
    assert words in str(refused.value)


def test_possible_header_length_is_accepted() -> None:
    assert header_length((92).to_bytes(8, "little") + b"{", 100) == 92
