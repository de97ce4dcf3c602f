import pyarrow as pa
import pytest

from tidemill.pipeline.expressions import compile, supports  # noqa: A004
from tidemill.pipeline.expressions.letters import lower, upper
from tidemill.pipeline.expressions.points import points
from tidemill.pipeline.plan.expression import Tree, call, column, literal

TEXT, INT = pa.large_string(), pa.int32()
WORDS = pa.array(["", "a日b", None, "😀é"], TEXT)
ROWS = pa.record_batch([WORDS, pa.array([1, -2, 1, 2], INT)], names=["text", "place"])
S, PLACE = column(0, TEXT), column(1, INT)


def values(tree: Tree, rows: pa.RecordBatch = ROWS) -> list[object]:
    return list(compile(tree)(rows).to_pylist())


def test_positions_count_code_points() -> None:
    assert points(WORDS).counts().tolist() == [0, 3, 0, 2]
    assert values(call("StringInstr", S, literal("é", TEXT), type=INT)) == [0, 0, None, 2]
    assert values(call("Substring", S, PLACE, literal(1, INT), type=TEXT)) == ["", "日", None, "é"]


def test_a_slice_of_text_begins_at_its_own_bytes() -> None:
    tree = call("Substring", S, PLACE, literal(2, INT), type=TEXT)

    assert values(tree, ROWS.slice(3)) == ["é"]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, ["", "", None, ""]), (9, ["", "a日b", None, "😀é"]), (-1, ["", "", None, ""])],
)
def test_substrings_end_with_the_text(length: int, expected: list[object]) -> None:
    tree = call("Substring", S, literal(-9, INT), literal(length, INT), type=TEXT)

    assert values(tree) == expected


def test_words_that_are_all_null_join_to_nothing() -> None:
    tree = call("ConcatWs", literal("-", TEXT), S, S, type=TEXT)

    assert values(tree) == ["-", "a日b-a日b", "", "😀é-😀é"]


def test_letters_that_become_several_do_so_in_their_row_only() -> None:
    text = pa.array(["x", "straße", None, "ﬁn"], TEXT)

    assert upper(text).to_pylist() == ["X", "STRASSE", None, "FIN"]
    assert upper(text.slice(3)).to_pylist() == ["FIN"]


def test_a_capital_sigma_is_final_at_the_end_of_a_word() -> None:
    text = pa.array(["XΣ", None, "ΣXΣ Σ XΣ.", "XΣ'X", "İΣ", "À\ua7daΣ"], TEXT)

    assert lower(text).to_pylist() == ["xς", None, "σxς σ xς.", "xσ'x", "i̇ς", "à\ua7dbς"]  # noqa: RUF001
    assert lower(text.slice(4)).to_pylist() == ["i̇ς", "à\ua7dbς"]


def test_a_percent_sign_matches_across_lines() -> None:
    rows = pa.record_batch([pa.array(["a\nb", "a%b", "ab"], TEXT)], names=["text"])
    flag = pa.bool_()

    assert values(call("Like", S, literal("a%b", TEXT), type=flag, escape="\\"), rows) == [True, True, True]
    assert values(call("Like", S, literal("a/%b", TEXT), type=flag, escape="/"), rows) == [False, True, False]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["a", "", None]), (-2, ["b.c", "", None]), (3, ["a.b.c", "", None])]
)
def test_what_is_before_or_after_so_many_delimiters(count: int, expected: list[object]) -> None:
    rows = pa.record_batch([pa.array(["a.b.c", "", None], TEXT)], names=["text"])

    assert (
        values(call("SubstringIndex", S, literal(".", TEXT), literal(count, INT), type=TEXT), rows)
        == expected
    )


def test_delimiters_that_overlap_are_for_spark() -> None:
    tree = call("SubstringIndex", S, literal("aba", TEXT), literal(1, INT), type=TEXT)

    assert supports(tree) is not None


def test_the_first_translation_of_a_sign_counts_and_one_without_is_dropped() -> None:
    tree = call("StringTranslate", S, literal("日a日😀", TEXT), literal("ab]", TEXT), type=TEXT)

    assert values(tree) == ["", "bab", None, "é"]
