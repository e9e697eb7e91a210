"""CSV and TSV: no record is lost, merged with another or taken for a header without a message."""

import pytest

from tests.refusals import refused
from trainables.data.records import Utterance
from trainables.file_formats import Options, open_source

SECRET = "xylophone"


def read(path, content, *, header=None):
    path.write_text(content)
    return list(open_source(path, options=Options(header=header)).utterances())


def texts(found):
    """The text of each record; None for a problem."""
    return [" ".join(u.tokens) if isinstance(u, Utterance) else None for u in found]


def test_quotes_that_are_quoted(tmp_path):
    content = 'text,intent\n"play ""x"", now",a\nplay 12" vinyl,a\n"two, yes\nlines",a\n'
    assert texts(read(tmp_path / "a.csv", content)) == [
        'play "x", now',
        'play 12" vinyl',
        "two, yes lines",
    ]


@pytest.mark.parametrize("close", ['"', '"x'], ids=["another opens", "a value goes on"])
def test_an_open_quote_costs_its_own_line(tmp_path, close):
    content = f'text\tintent\nhi\ta\n"{SECRET}\ta\nbye\tb\n{close}\ta\nok\tb\n'
    found = read(tmp_path / "a.tsv", content)
    assert texts(found) == ["hi", None, "bye", None, "ok"]
    assert str(found[1]).startswith(f"expected a row of values in {tmp_path / 'a.tsv'} line 3, got")
    assert SECRET not in str(found[1])


def test_a_quote_that_is_never_closed_takes_nothing_with_it(tmp_path):
    rows = [f"record {n},a" for n in range(300)]
    rows[5] = '"record 5,a'
    found = texts(read(tmp_path / "a.csv", "text,intent\n" + "\n".join(rows)))
    assert found == [None if n == 5 else f"record {n}" for n in range(300)]


def test_a_quote_that_closes_at_the_next_one_merges_no_records(tmp_path):
    """Between both quotes whole rows stand, and the values are as many as columns."""
    content = 'text,intent\n"hello,a\nbye,b\nlater",c\n'
    assert texts(read(tmp_path / "a.csv", content)) == [None, "bye", 'later"']


def test_bytes_that_are_no_text_cost_their_own_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,intent\nhi,a\n\xff\xfe,a\nbye,a\n")
    found = list(open_source(path, options=Options()).utterances())
    assert texts(found) == ["hi", None, "bye"]
    assert str(found[1]).startswith(f"expected UTF-8 in {path} line 3 (")


def test_a_record_whose_intent_reads_as_a_column_is_no_header(tmp_path):
    """Its words would be printed as names of columns, and intents read as texts."""
    path, content = tmp_path / "a.csv", f"{SECRET} now,question\nhello,greet\nwhere,question\n"
    with refused(r"expected --header or --no-header .* line 3$", hides=SECRET):
        read(path, content)
    assert texts(read(path, content, header=True)) == ["greet", "question"]
