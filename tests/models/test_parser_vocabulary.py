from hypothesis import given
from hypothesis import strategies as st

from trainables.models.parser.vocabulary import MAX_PIECES, Vocabulary, pieces
from trainables.parse.graph import graph, serialize

UTTERANCES = [
    "Book lunch with Jerri Skinner at 9 am",
    "book dinner at 9 am",
    "Call 425 555 on Monday",
    "book a table on Monday",
]
PROGRAMS = [
    '(Book (subject "lunch") (person "Jerri Skinner") (at 9L))',
    '(Book (subject "dinner") (at 9L))',
    '(Call (number "425 555") (Monday))',
    '(Book (Path "object") (Monday) (seats 17L))',
]


def vocabulary(literals="copy", times=3):
    return Vocabulary.of(UTTERANCES * times, PROGRAMS * times, literals=literals)


def test_programs_come_back_through_ids():
    found = vocabulary()
    for utterance, program in zip(UTTERANCES, PROGRAMS, strict=True):
        source = found.source(utterance)
        again = found.program(found.target(program, source), source)
        assert serialize(graph(again)) == serialize(graph(program))


def test_a_literal_is_copied_as_it_is_written_in_the_utterance():
    found = vocabulary()
    source = found.source("book lunch with Ann-Marie O'Neil at 9 am")
    ids = found.target('(Book (person "ann-marie o\'neil") (at 9L))', source)
    assert found.program(ids, source) == '(Book (person "Ann-Marie O\'Neil") (at 9L))'
    # No name of anybody is in the vocabulary, which is what is saved with the parser.
    assert not any("Skinner" in token for token in found.tokens)


def test_numbers_are_written_where_they_are_common_and_copied_elsewhere():
    found = vocabulary(times=1)  # 17L occurs once: it is not in the vocabulary
    assert "9L/-" in found.tokens
    assert "17L/-" not in found.tokens
    source = found.source("seats 17")
    assert found.program(found.target("(seats 17L)", source), source) == "(seats 17L)"
    nowhere = found.source("seats")
    assert found.program(found.target("(seats 17L)", nowhere), nowhere) == "(seats 0L)"


def test_fixed_strings_are_written_when_they_are_frequent():
    source = vocabulary().source("book it")
    assert '"object"' in vocabulary(times=3).tokens
    assert '"object"' not in vocabulary(times=1).tokens
    assert vocabulary().program(
        vocabulary().target('(Path "object")', source), source
    ) == ('(Path "object")')


def test_anonymous_literals_have_no_value():
    found = vocabulary("anon")
    source = found.source(UTTERANCES[0])
    text = found.program(found.target(PROGRAMS[0], source), source)
    assert text == '(Book (subject "STRING") (person "STRING") (at 0L))'
    assert not any("lunch" in token or "9L" in token for token in found.tokens)


def test_rare_words_are_unknown():
    found = vocabulary(times=1)
    assert "book" in found.words
    assert "jerri" not in found.words
    assert found.source("book xyz").ids[1] == 0


@given(st.text(max_size=50))
def test_any_text_is_cut_into_pieces_of_itself(text):
    found = pieces(text)
    assert found
    assert all(piece == text[start:end].lower() for piece, start, end in found)
    assert vocabulary(times=1).source(text).ids


def test_long_texts_are_read_up_to_a_bound():
    assert len(pieces("a " * 1_000)) == MAX_PIECES


def test_copies_of_odd_texts_are_sound_literals():
    found = vocabulary()
    copy = found.tokens.index('"copy" string')
    text = 'say "hi" \\ 12'
    source = found.source(text)
    places = [len(found.tokens), len(found.tokens) + len(source.ids) - 1]
    program = found.program([found.tokens.index("subject/1"), copy, *places], source)
    assert program == '(subject "say \\"hi\\" \\\\ 12")'


def test_slots_never_offer_what_does_not_fit():
    assert not any(vocabulary().fits["name"])  # no variable, so no let either
    with_let = Vocabulary.of(
        ["a"], ["(let (x0 (f)) (g :k x0 true 1L))"], literals="anon"
    )
    fitting = {
        slot: {t for t, fits in zip(with_let.tokens, row, strict=True) if fits}
        for slot, row in with_let.fits.items()
    }
    assert fitting["name"] == {"x0/-"}
    assert fitting["argument"] - fitting["expression"] == {":k/1"}
