import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tidemill.store.blobs.name import BLOB_SUFFIX, check_name, decode, encode

parts = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1, max_size=12
)
names = st.lists(parts.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4).map("/".join)


@given(names)
def test_a_path_leads_back_to_its_name(name: str) -> None:
    assert decode(encode(name)) == check_name(name)


@given(names, names)
def test_file_systems_that_fold_names_keep_them_apart(first: str, second: str) -> None:
    def folded(name: str) -> str:
        return unicodedata.normalize("NFD", encode(name)).casefold()

    assert (folded(first) == folded(second)) == (first == second)


@given(names)
def test_no_folder_is_named_like_the_file_of_a_blob(name: str) -> None:
    assert not any(part.endswith(BLOB_SUFFIX) for part in encode(name).split("/"))


def test_long_parts_go_on_in_a_folder() -> None:
    path = encode("日" * 100 + "/" + "x" * 200)

    assert decode(path) == "日" * 100 + "/" + "x" * 200
    assert max(len(part + BLOB_SUFFIX) for part in path.split("/")) <= 255
