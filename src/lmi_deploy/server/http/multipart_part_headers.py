"""The headers of one part of a multipart form, taken apart and understood as Netty does."""

from __future__ import annotations

import re

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.java_text import (
    BLANKS,
    IllegalCharset,
    UnknownCharset,
    charset_named,
    trimmed,
)

PARTS_INSIDE = "\0mixed"  # no header can have this name: the delimiter of the parts inside a part
OF_ONE_FILE = ("charset", "content-length", "content-transfer-encoding", "content-type", "filename")

_NAME_END = re.compile(r"[:\s]")
_SIZE = re.compile(r"[0-9]{1,18}")
_BY_SPACE = str.maketrans(dict.fromkeys(":,=;\t", " ") | {'"': ""})
_ENCODINGS = {"7bit": "ascii", "8bit": "latin-1", "binary": "utf-8"}
_NULL_NAME = '"io.netty.handler.codec.http.multipart.Attribute.getValue()" because "nameAttribute" is null'


def undecodable(message: str) -> ErrorReply:
    return ErrorReply(500, "ErrorDataDecoderException", message)


def field_name(text: str) -> str:
    """`ErrorReply` for a name of blanks."""
    name = text.replace("\r", " ").replace("\t", " ").strip(BLANKS).replace("\n", "")
    if not name:
        raise undecodable("java.lang.IllegalArgumentException: Param 'name' must not be empty")
    return name


def read_header(line: str, attributes: dict[str, str], *, inside: bool) -> None:
    """Add the attributes in the line to those of its part, with lower-case names."""
    name, *values = _split(line)
    match name.lower():
        case "content-disposition":
            kinds = ("attachment", "file") if inside else ("form-data",)
            if _at(values, 0).lower() in kinds:
                attributes |= map(_parameter, values[1:])
        case "content-transfer-encoding" | "content-length":
            attributes[name.lower()] = _clean(_at(values, 0))
        case "content-type" if _at(values, 0).lower() == "multipart/mixed":
            if inside:
                raise undecodable("Mixed Multipart found in a previous Mixed Multipart")
            _, equals, text = _at(values, 1).partition("=")
            attributes[PARTS_INSIDE] = f"--{text if equals else 'null'}"
        case "content-type":
            attributes |= filter(None, map(_type_parameter, values))
        case _:
            pass  # of no meaning for a form


def name_of(attributes: dict[str, str]) -> str:
    if "name" not in attributes:
        raise undecodable(f"java.lang.NullPointerException: Cannot invoke {_NULL_NAME}")
    return field_name(_clean(attributes["name"]))


def charset_of(attributes: dict[str, str]) -> str:
    """Python's name of the character set of a field."""
    if (stated := attributes.get("charset")) is None:
        return "utf-8"
    try:
        return charset_named(stated)
    except UnknownCharset as exc:
        raise undecodable(f"java.nio.charset.UnsupportedCharsetException: {stated}") from exc
    except IllegalCharset as exc:
        raise ErrorReply(500, "IllegalCharsetNameException", stated) from exc


def file_charset_of(attributes: dict[str, str]) -> str:
    """The charset of a file part. Its content is not decoded: the charset is used only to search for its end."""
    encoding = attributes.get("content-transfer-encoding", "binary").lower()
    if encoding not in _ENCODINGS:
        raise undecodable(f"TransferEncoding Unknown: {encoding}")
    return charset_of(attributes) if "charset" in attributes else _ENCODINGS[encoding]


def check_size(attributes: dict[str, str], size: int) -> None:
    """`ErrorReply` for a file that is longer than the Content-Length of its part."""
    stated = attributes.get("content-length", "")
    if _SIZE.fullmatch(stated) and 0 < int(stated) < size:
        raise undecodable(f"java.io.IOException: Out of size: {size} > {int(stated)}")


def _split(line: str) -> list[str]:
    """A header's name and its values."""
    line = line.strip(BLANKS)
    ended = _NAME_END.search(line)
    name = line[: ended.start()] if ended else line
    value = line[len(name) :].partition(":")[2].lstrip(BLANKS)
    if ";" in value:
        return [name, *map(trimmed, _split_at_semicolons(value))]
    values = value.split(",")
    while len(values) > 1 and not values[-1]:
        values.pop()  # as String.split of Java
    return [name, *map(trimmed, values if values[0] or len(values) > 1 or not value else [])]


def _split_at_semicolons(text: str) -> list[str]:
    """Outside of quotes."""
    parts: list[str] = []
    started, quoted, escaped = 0, False, False
    for at, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            quoted = True
        elif char == ";":
            parts.append(text[started:at])
            started = at + 1
    return [*parts, text[started:]]


def _at(values: list[str], index: int) -> str:
    if index >= len(values):
        raise _out_of_bounds(index + 1, len(values) + 1)  # there, the header's name is the first of them
    return values[index]


def _out_of_bounds(index: int, length: int) -> ErrorReply:
    message = f"Index {index} out of bounds for length {length}"
    return ErrorReply(500, "ArrayIndexOutOfBoundsException", message)


def _parameter(text: str) -> tuple[str, str]:
    """Of a Content-Disposition."""
    name, equals, value = text.partition("=")
    if not equals:
        raise _out_of_bounds(1, 1)
    name = _clean(name)
    if name == "filename":
        return name, value
    if name == "filename*":
        _check_encoded(_clean(value))
        return "filename", value
    return field_name(name).lower(), _clean(value)


def _check_encoded(value: str) -> None:
    """A handler does not get the file name, but an invalid encoding refuses the request."""
    charset, *rest = value.split("'", 2)
    if len(rest) < 2:
        bounds = _out_of_bounds(2, len(rest) + 1)
        raise undecodable(f"java.lang.{bounds.kind}: {bounds.message}")
    try:
        charset_named(charset)
    except (UnknownCharset, IllegalCharset) as exc:
        kind = "UnsupportedCharset" if isinstance(exc, UnknownCharset) else "IllegalCharsetName"
        raise undecodable(f"java.nio.charset.{kind}Exception: {charset}") from exc


def _type_parameter(text: str) -> tuple[str, str] | None:
    """Of a Content-Type; one called `name` is the part's name, too."""
    name, equals, value = text.partition("=")
    if name[:7].lower() == "charset":
        if not equals:
            cause = 'Cannot invoke "String.length()" because "field" is null'
            raise undecodable(f"java.lang.NullPointerException: {cause}")
        return "charset", _clean(value)
    if not equals:
        return None
    field_name(_clean(name))
    return name.lower(), value


def _clean(text: str) -> str:
    return trimmed(text.translate(_BY_SPACE))
