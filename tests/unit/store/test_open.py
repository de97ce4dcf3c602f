"""What may stand in the address of a store."""

import pytest

from tidemill.store import BadRequest, open_store


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://ada:hunter2@db/mill", "'***@db/mill'"),
        ("mysql://db/mill?password=hunter2", "'mysql://db/mill'"),
        ("jobs.db", "'jobs.db'"),
    ],
)
def test_what_is_no_address_is_refused_without_telling_its_password(url: str, shown: str) -> None:
    with pytest.raises(BadRequest) as refused:
        open_store(url)
    assert shown in str(refused.value)
    assert "hunter2" not in str(refused.value)
