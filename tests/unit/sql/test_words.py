"""Text is cut into words as Spark cuts it."""

import pytest

from tidemill.pipeline.errors import Place, Refused
from tidemill.sql.words import cut, place_at, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'x\\';y' ; b", ["a", "'x\\';y'", ";", "b"]),
        ("a 'it''s;' b", ["a", "'it''s;'", "b"]),
        ('a "x\\";y" b', ["a", '"x\\";y"', "b"]),
        ("r'x\\' ; b", ["r'x\\'", ";", "b"]),
        ("R\"x\\\" ; bar'y'", ['R"x\\"', ";", "bar", "'y'"]),
        ("a `x;y``z` b", ["a", "`x;y``z`", "b"]),
        ("a /* x /* ; */ y; */ b", ["a", "b"]),
        ("a /**/ b /*/ ; */ c", ["a", "b", "c"]),
        ("a -- x; 'y\nb", ["a", "b"]),
        ("a -- x \\\n y; z\nb", ["a", "b"]),
        ("a /*+ hint(b) */ c", ["a", "/", "*", "+", "hint", "(", "b", ")", "*", "/", "c"]),
        ("ARRAY<ARRAY<INT>>", ["ARRAY", "<", "ARRAY", "<", "INT", ">", ">"]),
        ("größe 😀 1L", ["größe", "😀", "1L"]),
        ("a - b -- c", ["a", "-", "b"]),
        ("", []),
    ],
)
def test_strings_names_and_comments_end_where_spark_ends_them(text: str, words: list[str]) -> None:
    assert [word.spelled for word in cut(text)] == words
    assert [text[word.start : word.end] for word in cut(text)] == words


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a\n  'b", 2, 3), ('a "b', 1, 3), ("a\n `b", 2, 2), ("a\n b /* c /* d */", 2, 4), ("'a\\'", 1, 1)],
)
def test_what_has_no_end_is_refused_where_it_starts(text: str, line: int, column: int) -> None:
    with pytest.raises(Refused, match="has no end") as refused:
        list(cut(text))

    assert refused.value.place == Place(line, column)


def test_statements_end_at_a_semicolon_and_empty_ones_are_none() -> None:
    text = "; a ';' ;; -- ;\n /* ; */ b;"

    assert [(words.peek(), words.place, text[words.end]) for words in split(text)] == [
        ("A", Place(1, 3), ";"),
        ("B", Place(2, 10), ";"),
    ]


def test_a_place_counts_lines_and_characters_from_one() -> None:
    assert place_at("a😀\r\nbc", 0) == Place(1, 1)
    assert place_at("a😀\r\nbc", 5) == Place(2, 2)
