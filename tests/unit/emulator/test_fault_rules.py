"""The fault rules: which request they match, how often; and the changed body."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.emulator.faults.rule_files import ACTIONS, describe, load_rules, parse_rules
from lmi_deploy.emulator.faults.rules import (
    Answer,
    BadRule,
    Call,
    Cut,
    Drop,
    End,
    FaultRule,
    FaultRules,
    Flip,
    Lose,
    Pad,
    Pause,
    Send,
    Stall,
    Step,
    inject,
)

GET = Call("GET", "/org/m/resolve/main/model.safetensors", {"Range": "bytes=5-"})


def matched_requests(rule: FaultRule, count: int, call: Call = GET) -> list[int]:
    rules = FaultRules([rule])
    return [number for number in range(1, count + 1) if rules.apply(call)]


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (FaultRule(do=Lose()), [1]),
        (FaultRule(do=Lose(), nth=3), [3]),
        (FaultRule(do=Lose(), times=2), [1, 2]),
        (FaultRule(do=Lose(), nth=2, every=3, times=None), [2, 5, 8]),
        (FaultRule(do=Lose(), nth=2, every=3, times=2), [2, 5]),
        (FaultRule(do=Lose(), times=None), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_nth_every_and_times_select_the_requests(rule: FaultRule, hit: list[int]) -> None:
    assert matched_requests(rule, 9) == hit


@pytest.mark.parametrize(
    ("rule", "does"),
    [
        (FaultRule(do=Lose(), method="get"), True),
        (FaultRule(do=Lose(), method="PUT"), False),
        (FaultRule(do=Lose(), path=r"/resolve/.*\.safetensors$"), True),
        (FaultRule(do=Lose(), path="^/api/"), False),
        (FaultRule(do=Lose(), headers={"range": "bytes=5-"}), True),
        (FaultRule(do=Lose(), headers={"range": "bytes=6-"}), False),
        (FaultRule(do=Lose(), headers={"if-match": ""}), False),
    ],
)
def test_rule_matches_method_path_and_headers(rule: FaultRule, does: bool) -> None:
    assert bool(matched_requests(rule, 1)) is does


def test_first_matching_rule_fires_and_both_count() -> None:
    rules = FaultRules([FaultRule(do=Lose(), name="a"), FaultRule(do=Drop(), name="b", nth=2)])
    assert [rule.name for rule in (rules.apply(GET), rules.apply(GET)) if rule] == ["a", "b"]
    assert [(t.matched, t.fired) for t in rules.tallies()] == [(2, 1), (2, 1)]


def test_cleared_rules_never_fire() -> None:
    rules = FaultRules()
    rules.add(FaultRule(do=Lose(), times=None))
    assert rules.apply(GET)
    rules.clear()
    assert rules.apply(GET) is None


def join(steps: Iterable[Step]) -> bytes:
    return b"".join(step.content for step in steps if isinstance(step, Send))


CHUNKS = st.lists(st.binary(min_size=1, max_size=9), max_size=9)


@given(CHUNKS, st.integers(0, 90))
def test_cut_sends_the_given_bytes_and_ends(chunks: list[bytes], at: int) -> None:
    steps = list(inject(Cut(at, reset=True), chunks))
    assert join(steps) == b"".join(chunks)[:at]
    assert steps[-1] == End(reset=True)


@given(CHUNKS, st.integers(0, 90))
def test_flip_changes_one_bit_of_one_byte(chunks: list[bytes], at: int) -> None:
    before, after = b"".join(chunks), join(list(inject(Flip(at), chunks)))
    differing = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert differing == ([at] if at < len(before) else [])


@given(CHUNKS, st.integers(0, 90))
def test_stall_pauses_at_the_given_byte_and_loses_nothing(chunks: list[bytes], at: int) -> None:
    steps = list(inject(Stall(at, 2.5), chunks))
    assert join(steps) == b"".join(chunks)
    if at < len(b"".join(chunks)):
        place = steps.index(Pause(2.5))
        assert len(join(steps[:place])) == at


def test_pad_appends_bytes_and_other_actions_leave_the_body() -> None:
    assert join(list(inject(Pad(3), [b"ab"]))) == b"ab\0\0\0"
    assert join(list(inject(Lose(), [b"ab", b"c"]))) == b"abc"


EXAMPLES = {
    "answer": {"status": 429, "headers": {"Retry-After": "1"}, "body": "slow down"},
    "change": {"status": 206, "headers": {"ETag": '"x"'}, "remove": ["Content-Range"]},
    "hang": {"seconds": 2},
    "drop": {"reset": True},
    "lose": {},
    "repeat": {},
    "cut": {"after": 10, "reset": False},
    "stall": {"after": 10, "seconds": 0.5},
    "flip": {"at": 3},
    "pad": {"count": 4},
    "ignore_range": {},
    "shift_range": {"by": -1},
}


def test_every_action_survives_a_json_round_trip() -> None:
    assert set(EXAMPLES) == set(ACTIONS)
    fields = {
        "name": "n",
        "method": "GET",
        "path": "x",
        "headers": {"A": "b"},
        "nth": 2,
        "every": 2,
        "delay": 0.5,
    }
    listed = [fields | {"times": times, "do": {k: v}} for times in (None, 3) for k, v in EXAMPLES.items()]
    rules = FaultRules(parse_rules(json.dumps({"rules": listed})))
    shown = [describe(tally) for tally in rules.tallies()]
    for item in shown:
        assert (item.pop("matched"), item.pop("fired")) == (0, 0)
    again = parse_rules(json.dumps(shown))
    assert again == tuple(tally.rule for tally in rules.tallies())


def test_rules_can_be_one_object_a_list_or_an_object_with_rules() -> None:
    one = '{"path": "x", "do": "lose"}'
    assert parse_rules(one) == parse_rules(f"[{one}]") == parse_rules(f'{{"rules": [{one}]}}')
    assert parse_rules(one) == (FaultRule(do=Lose(), path="x"),)
    assert parse_rules('{"do": {"answer": {"status": 200, "body": "no"}}}') == (
        FaultRule(do=Answer(200, {}, "no")),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ("3", "rule 1: 3 is not an object"),
        ("{}", "rule 1: the key do is missing, which says what happens"),
        ('{"rules": [], "rule": 1}', "rule: unknown, did you mean rules?"),
        ('{"do": "loose"}', "rule 1: do: loose: unknown, did you mean lose?"),
        ('{"do": {"cut": {}}}', "rule 1: do.cut: after is missing"),
        ('{"do": "cut"}', "rule 1: do.cut: after is missing"),
        ('{"do": {"cut": {"after": "9"}}}', 'rule 1: do.cut: after: "9" is not a whole number'),
        ('{"do": {"cut": {"after": true}}}', "rule 1: do.cut: after: true is not a whole number"),
        ('{"do": {"cut": {"aftr": 9}}}', "rule 1: do.cut: aftr: unknown, did you mean after?"),
        ('{"do": {"lose": {}, "repeat": {}}}', "rule 1: do: 2 actions; name exactly one of "),
        ('{"do": {"hang": {"seconds": -1}}}', "rule 1: do.hang: seconds: -1 is not a number of seconds"),
        ('{"do": {"answer": {"status": 1, "headers": {"a": 1}}}}', "is not an object of strings"),
        ('{"do": {"change": {"remove": "ETag"}}}', 'remove: "ETag" is not a list of strings'),
        ('{"do": {"drop": {"reset": 1}}}', "reset: 1 is not true or false"),
        ('{"do": "lose", "pth": "x"}', "rule 1: pth: unknown, did you mean path?"),
        ('{"do": "lose", "path": "("}', "rule 1: path: not a regular expression: "),
        ('{"do": "lose", "headers": {"A": "["}}', "rule 1: headers.A: not a regular expression: "),
        ('{"do": "lose", "nth": 0}', "rule 1: nth: 0 is less than 1"),
        (
            '[{"do": "lose"}, {"do": "lose", "times": 1.5}]',
            "rule 2: times: 1.5 is not a whole number or null",
        ),
    ],
)
def test_invalid_rule_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rules(text)
    assert message in caught.value.message
    assert "`lmi docs fault-rules`" in caught.value.hint


def test_errors_of_a_rules_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    with pytest.raises(BadRule, match=r"faults\.json: cannot be read"):
        load_rules(file)
    file.write_text('{"do": "nothing"}')
    with pytest.raises(BadRule, match=r"faults\.json: rule 1: do: nothing: unknown"):
        load_rules(file)
    file.write_text('{"do": "lose"}')
    assert load_rules(file) == (FaultRule(do=Lose()),)


def test_docs_page_lists_every_action_and_valid_examples() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "fault-rules.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)[^|]*\|[^|]*\| (?:no|yes|twice) \|$", page, re.M)) == set(ACTIONS)
    examples = re.findall(r"```json\n(.*?)```", page, re.S) + re.findall(r"-d '(.*?)'", page)
    assert [len(parse_rules(example)) for example in examples] == [3, 1]
