"""The page of proofs says what its runs have recorded."""

from tests.tools import proofs


def test_the_page_is_made_of_the_records() -> None:
    assert proofs.PAGE.read_text("utf-8") == proofs.page()


def test_every_record_has_a_row_and_every_row_its_file() -> None:
    rows = {row.key: row for row in proofs.ROWS}
    assert proofs.recorded().keys() <= rows.keys()
    for row in rows.values():
        place = row.command.split()[-1]
        assert not place.startswith("tests/") or (proofs.ROOT / place).exists()
