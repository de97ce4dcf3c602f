import pyarrow as pa
import pytest

from tidemill.pipeline.expressions import compile, supports  # noqa: A004
from tidemill.pipeline.plan.expression import Call, call, column, literal

TEXT = pa.large_string()
LINES = ["ab", "ab\n", "ab\r\n", "a\nb", None, "", "a&b=1"]
ROWS = pa.record_batch([pa.array(LINES, TEXT)], names=["text"])


def extract(pattern: str, group: int) -> Call:
    group_number = literal(group, pa.int32())
    return call("RegExpExtract", column(0, TEXT), literal(pattern, TEXT), group_number, type=TEXT)


def matches(pattern: str) -> Call:
    return call("RLike", column(0, TEXT), literal(pattern, TEXT), type=pa.bool_())


def values(tree: Call) -> list[object]:
    return list(compile(tree)(ROWS).to_pylist())


def test_what_is_not_found_is_empty_text() -> None:
    assert values(extract("(&|^)b=([^&]*)", 2)) == ["", "", "", "", None, "", "1"]
    assert values(extract("a(x)?", 1)) == ["", "", "", "", None, "", ""]


def test_a_dollar_is_the_end_of_the_text_or_of_its_last_line() -> None:
    assert values(matches("b$")) == [True, True, True, True, None, False, False]
    assert values(matches(r"\s$")) == [False, True, True, False, None, False, False]
    assert values(extract(r".(\s*?)$", 1)) == ["", "", "", "", None, "", ""]


def test_a_dot_is_anything_but_the_end_of_a_line() -> None:
    assert values(extract("a.*", 0)) == ["ab", "ab", "ab", "a", None, "", "a&b=1"]


def test_letters_are_matched_in_both_cases_on_request() -> None:
    assert values(matches("(?i)AB")) == [True, True, True, False, None, False, False]
    assert values(matches("AB")) == [False, False, False, False, None, False, False]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a*)*",
        "(a)+",
        "(?:ab)*",
        "(a|b){2}",
        "a**",
        "a*+",
        "^*",
        "a{2,1}",
        "a{0}",
        "{",
        "a{",
        "(",
        ")",
        "(?=a)",
        "(?<x>a)",
        "(?s).",
        r"\bA",
        r"\1",
        r"\p{L}",
        r"\x41",
        "\\",
        "[]",
        "[]a]",
        "[^]a]",
        "[a",
        "[a[b]]",
        "[a&&b]",
        "[b-a]",
        "[+--]",
        r"[\d-z]",
        "[é]",
        r"[^\s\S]",
        "]",
        "}",
        "😀",
    ],
)
def test_what_java_alone_knows_is_for_spark(pattern: str) -> None:
    assert supports(matches(pattern)) is not None


def test_a_group_must_be_there() -> None:
    assert supports(extract("(a)", 1)) is None
    assert supports(extract("(a)", 2)) is not None
    assert supports(extract("(a)", -1)) is not None


def test_a_pattern_that_becomes_too_large_is_for_spark() -> None:
    assert supports(matches("(?:(?:a{999}){999}){999}")) is not None
