"""Each record of a file is read, or is a problem of one line that names its place and
quotes none of it: none is lost, merged with another or taken for a header.
"""

import json
import re

import pytest

from tests.lines import write_lines
from tests.refusals import refused
from tests.utterances import said
from trainables.data.formats import Options, open_source
from trainables.errors import InvalidData, InvalidInput

SECRET = "xylophone"  # stands for private text: no message may contain it
CALL = said("call [who : ann lee]", "phone")


def source(folder, name, content, **options):
    path = folder / name
    if isinstance(content, list):
        write_lines(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_source(path, options=Options(**options))


def check(found, expected):
    """Utterances as they are, a problem by what it says."""
    for got, want in zip(found, expected, strict=True):
        if isinstance(want, str):
            assert isinstance(got, InvalidData)
            assert re.search(want, str(got)), got
            assert "\n" not in str(got)
            assert SECRET not in str(got)
        else:
            assert got == want


_OPEN = 'text\tintent\nhi\ta\n"xylophone\ta\nbye\tb\n{}\ta\nok\tb\n'
_OPEN_READ = [
    said("hi", "a"),
    "^expected a row of values in .*a.tsv line 3, got",
    said("bye", "b"),
    "line 5, got a quote",
    said("ok", "b"),
]
_RUSSIAN = "text,intent\nпривет мой друг,greet\n".encode("cp1251")
_UNITS = [
    {"text": "😀😀 fly to Rome", "slots": [[12, 16, "city"]]},
    {"text": "go", "slots": [[0, 2, "go"]]},
]
_CONLL = """-DOCSTART- -X- O O

# id 7 domain=en
call NN B-VP O
ann NNP B-NP B-who
lee NNP I-NP I-who
"""
_RASA = """
version: "3.1"
nlu:
- intent: phone
  examples: |
    - call [ann lee](who)
    - call [ann lee]{"entity": "who", "role": "to"} now
    - ring [ann](who:Ann Lee)!
- synonym: ann
  examples: |
    - annie
- intent: stop
  examples:
  - text: |
      stop it
"""
_MASSIVE = {
    **{"id": "1", "locale": "en-US", "partition": "dev", "scenario": "alarm"},
    **{"intent": "alarm_set", "utt": "wake me at nine am, ok", "worker_id": "1"},
    "annot_utt": "wake me at [time : nine am], ok",
}
_WORDS = ["call", "ann", "lee"]
_SPELLINGS = [
    {"tokens": _WORDS, "tags": ["O", "B-who", "I-who"], "intent": "phone"},
    {"words": _WORDS, "bio_tags": "O B-who I-who", "label": "phone"},
    {"text": "call ann lee", "slots": [["who", 1, 3]], "intent": "phone"},
    {"utterance": "call ann lee", "entities": [[5, 12, "who"]], "intents": ["phone"]},
    {
        **{"sentence": "call  ann lee", "category": " phone "},
        "entities": [{"start": 6, "end": 13, "entity": "who", "value": "Ann Lee"}],
    },
    {
        **{"query": "call ann lee", "intent": "phone"},
        "spans": [{"label": "who", "start": 5, "end": 12}],
    },
]
_SECOND = ["line 1", said("ok")]
_OWN = [{"said": "call ann lee", "what": "phone", "where": [["who", 1, 3]]}]
_EITHER = [{"text": "a b c d", "slots": [["x", 0, 1]]}]
_SPACED = [
    {"tokens": ["call", "ann"], "tags": ["O", "B-first name"], "intent": "ring\nup"},
    {"tokens": ["ann"], "slots": [["first  name", 0, 1]], "intent": "ring up "},
]
_LIST = [
    {"text": "call ann lee", "label": "phone", "entities": [["who", 1, 3]]},
    {"label": SECRET},
    [SECRET],
]
_ALIKE = {"text": "call ann o'lee, now"}, {"text": "stop, now"}
_ALIKE_READ = [said("call [who : ann o'lee ,] now"), said("stop , now")]
_PUNCTUATION = {"spans": "tokens", "tokenize": "punctuation"}
READ = [
    # Tables: quotes, columns, rows of another width, bytes that are no text.
    (
        "a.csv",
        'text,intent\n"play ""x"", now",a\nplay 12" vinyl,a\n"two, yes\nlines",a\n',
        {},
        [
            said('play "x", now', "a"),
            said('play 12" vinyl', "a"),
            said("two, yes lines", "a"),
        ],
    ),
    ("a.tsv", _OPEN.format('"'), {}, _OPEN_READ),
    ("a.tsv", _OPEN.format('"x'), {}, _OPEN_READ),
    (  # between both quotes whole rows stand, and the values are as many as columns
        "a.csv",
        'text,intent\n"hello,a\nbye,b\nlater",c\n',
        {},
        ["line 2, got a quote", said("bye", "b"), said('later"', "c")],
    ),
    (
        "a.csv",
        b"text,intent\nhi,a\n\xff\xfe,a\nbye,a\n",
        {},
        [said("hi", "a"), r"^expected UTF-8 in .*a.csv line 3 \(", said("bye", "a")],
    ),
    ("a.csv", "id,text,intent,tags\n7,call ann lee,phone,O B-who I-who\n", {}, [CALL]),
    ("a.csv", 'Text;Label;Slots\ncall ann lee;phone;"[[""who"", 1, 3]]"\n', {}, [CALL]),
    (
        "a.tsv",
        "utterance\tintent\tbio\ncall ann lee\tphone\tO B-who I-who\n",
        {},
        [CALL],
    ),
    (
        "a.csv",
        "ann,9,phone\n",
        {"text": "1", "intent": "3", "header": False},
        [said("ann", "phone")],
    ),
    (
        "a.csv",
        "xylophone now,question\nhello,greet\n",
        {"header": True},
        [said("greet")],
    ),
    (
        "a.csv",
        'text,intent\n"a\nb",x\nxylophone,y,z\n',
        {},
        [said("a b", "x"), "^expected 2 columns in .*a.csv line 4, got 3$"],
    ),
    ("a.csv", _RUSSIAN, {"encoding": "cp1251"}, [said("привет мой друг", "greet")]),
    # JSON: spellings of fields, units of spans, labels.
    *(("a.jsonl", [fields], {}, [CALL]) for fields in _SPELLINGS),
    ("a.jsonl", _OWN, {"text": "said", "intent": "what", "slots": "where"}, [CALL]),
    *(
        ("a.jsonl", _EITHER, {"spans": unit}, [said("[x : a] b c d")])
        for unit in ("tokens", "characters")
    ),
    (
        "a.jsonl",
        _UNITS,
        {},
        ["line 1 .*--spans characters or --spans utf-16", said("[go : go]")],
    ),
    (
        "a.jsonl",
        _UNITS,
        {"spans": "utf-16"},
        [said("😀😀 fly to [city : Rome]"), said("[go : go]")],
    ),
    (
        "a.jsonl",
        [
            {"text": "下个星期五在南京", "slots": [[0, 5, "date"]]},
            {"tokens": ["下个", "南京"]},
        ],
        {},
        ["line 1 .*field tokens", said("下个 南京")],
    ),
    # Else a sign that stands alone says that there is no slot, and an exported model,
    # which cuts every text like that, is given other words than it was measured on.
    (
        "a.jsonl",
        [_ALIKE[0] | {"slots": [["who", 1, 3]]}, _ALIKE[1]],
        _PUNCTUATION,
        _ALIKE_READ,
    ),
    (
        "a.jsonl",
        [_ALIKE[0] | {"tags": ["O", "B-who", "I-who", "O"]}, _ALIKE[1]],
        _PUNCTUATION,
        _ALIKE_READ,
    ),
    (  # of entities as Rasa's parser gives them: some with a role, one in a group
        "a.jsonl",
        [
            {
                "text": "ann lee to bob",
                "entities": [
                    {"start": 0, "end": 7, "entity": "who", "role": "from"},
                    {
                        "start": 11,
                        "end": 14,
                        "entity": "who",
                        "role": None,
                        "group": "1",
                    },
                ],
            }
        ],
        {},
        [said("[who.from : ann lee] to [who : bob]")],
    ),
    (  # a tag with a space would be two in the files that list them
        "a.jsonl",
        _SPACED,
        {"spans": "tokens"},
        [
            said("call [first_name : ann]", "ring up"),
            said("[first_name : ann]", "ring up"),
        ],
    ),
    (
        "a.jsonl",
        [{"text": "a", "intent": ["stay", "go"]}, {"text": "b", "intent": "go"}],
        {},
        [
            r"expected one intent in .*, got 2 in intent \(try --intent \"join\('#', ",
            said("b", "go"),
        ],
    ),
    (
        "a.jsonl",
        [{"text": "a", "intent": "x"}, {"text": "b"}],
        {},
        [said("a", "x"), "expected an intent in"],
    ),
    (
        "a.json",
        json.dumps(_LIST, indent=2),
        {"spans": "tokens"},
        [
            CALL,
            "^expected a field for the words in .*a.json object 2",
            "^expected a JSON object in .*a.json object 3, got a list$",
        ],
    ),
    (
        "en-US.jsonl",
        [_MASSIVE],
        {},
        [said("wake me at [time : nine am], ok", "alarm_set", part="validation")],
    ),
    *(
        (
            "a.jsonl",
            [{"annot_utt": f"xylophone {mark}"}, {"annot_utt": "ok"}],
            {},
            _SECOND,
        )
        for mark in ("[time : ]", "[ : nine]", "[: nine]")
    ),
    # Lines of tokens.
    ("a.txt", _CONLL, {}, [said("call [who : ann lee]")]),
    ("a.txt", _CONLL, {"tags": "3"}, [said("[VP : call] [NP : ann lee]")]),
    (
        "a.conll",
        "# intent: phone\ncall O\n# O\n7 B-who\n",
        {},
        [said("call # [who : 7]", "phone")],
    ),
    (
        "a.conll",
        "call O\n\nxylophone O\nxylophone\n\nann xylophone\n",
        {},
        [said("call"), "line 3$", "B-name or I-name"],
    ),
    (  # how to convert the file is said once
        "a.conll",
        b"call O\n\xff\xfe B-who\nlee I-who\n\nbye O\n\nhi O\n\xff\n",
        {},
        [
            "^expected UTF-8 in .*a.conll line 2 .if it is Latin-1",
            said("bye"),
            "line 8$",
        ],
    ),
    *(
        (
            "a.conll",
            f"# intent: {name}\n# group: {name}\ncall O\n",
            {},
            [said("call", name, group=name)],
        )
        for name in ("O", "B-12", "I-who")
    ),
    # Rasa.
    (
        "nlu.yml",
        _RASA,
        {"tokenize": "punctuation"},
        [
            CALL,
            said("call [who.to : ann lee] now", "phone"),
            said("ring [who : ann] !", "phone"),
            said("stop it", "stop"),
        ],
    ),
    (
        "nlu.md",
        "## intent:phone\n- call [ann lee](who:Ann)\n* call\n## synonym:Ann\n- a\n",
        {},
        [CALL, said("call", "phone")],
    ),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), READ)
def test_every_record_is_read_or_a_problem_of_its_line(
    tmp_path, name, content, options, expected
):
    check(source(tmp_path, name, content, **options).utterances(), expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"text": SECRET, "tags": ["O", "O"]},
            "expected 1 tags in .*, one per token, got 2",
        ),
        ({"text": SECRET, "tags": [SECRET]}, "O, B-name or I-name in .* line 2, tag 1"),
        ({"text": SECRET, "slots": [["x", 0, 2]]}, "0 <= start < end <= 1 tokens"),
        (
            {"text": SECRET, "slots": [["x", 0]]},
            r"slots in .* line 2 as \[name, start, end\]",
        ),
        (
            {"text": SECRET, "slots": [[SECRET, True, 1]]},
            "with a name and whole numbers",
        ),
        (
            {"text": f"{SECRET} b", "slots": [["x", 0, 2], ["y", 1, 2]]},
            "share no token",
        ),
        ({"text": SECRET, "part": SECRET}, "part in .* line 2 to be one of train, dev"),
        ({"text": SECRET, "intent": True}, "intent in .* line 2 to be a name"),
        ({"text": SECRET, "group": [SECRET]}, "group in .* line 2 to be a name"),
        ({"text": 5}, "text in .* line 2 to be text"),
        ({"text": " "}, "at least one token in .* line 2"),
        ({"tokens": [f"{SECRET} x"]}, "tokens without white space in .* line 2"),
        ({"said": SECRET}, "a field for the words in .* line 2"),
        ([SECRET], "a JSON object in .* line 2"),
    ],
)
def test_a_damaged_record_is_named_by_file_and_line(tmp_path, fields, message):
    sound = {"text": "call ann", "slots": [["who", 1, 2]], "intent": "x"}
    if isinstance(fields, dict):
        fields = {"intent": "x", **fields}
    found = source(tmp_path, "a.jsonl", [sound, fields], spans="tokens").utterances()
    check(found, [said("call [who : ann]", "x"), message])


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        # A first line that may be a record: its words would be printed as names of
        # columns.
        (
            "a.csv",
            "xylophone now,question\nhello,greet\nwhere,question\n",
            {},
            "--no-header .* line 3$",
        ),
        ("a.csv", "xylophone,9,phone\n", {}, "--text COLUMN"),
        (
            "a.csv",
            "xylophone,9,phone\n",
            {"text": "1", "intent": "3"},
            "--header or --no-header",
        ),
        (
            "a.csv",
            "xylophone,9,phone\n",
            {"text": "1", "intent": "4", "header": False},
            r"the field 4 \(--intent\) in .* line 1, got none such among its 3$",
        ),
        (
            "a.csv",
            "id,said,intent\n1,call xylophone now,phone\n",
            {},
            r"a field for the words in .* line 2.* \(try --text said ",
        ),
        ("a.csv", _RUSSIAN, {}, "expected UTF-8 in .*a.csv line 2"),
        (
            "a.jsonl",
            _OWN,
            {"text": "said", "intent": "no"},
            r"the field no \(--intent\) in .* line 1",
        ),
        ("a.jsonl", _EITHER, {}, "--spans tokens or --spans characters: both readings"),
        (
            "a.json",
            '[{"text": "xylophone"}\n{}]',
            {},
            "expected JSON in .*a.json, line 2",
        ),
        ("a.json", "[]", {}, "expected utterances in .*a.json, got an empty json file"),
        ("a.txt", _CONLL, {"tags": "who"}, r"the field who \(--tags\) in .* line 4"),
        (
            "nlu.yml",
            'nlu:\n- intent: x\n  examples: [0123, "xylophone]\n',
            {},
            r"expected YAML in .*nlu.yml, line \d",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_as_a_whole(
    tmp_path, name, content, options, words
):
    with refused(words, InvalidInput, hides=SECRET):
        source(tmp_path, name, content, **options)


def test_a_quote_that_is_never_closed_takes_nothing_with_it(tmp_path):
    rows = [f"record {n},a" for n in range(300)]
    rows[5] = '"record 5,a'
    expected = [said(f"record {n}", "a") for n in range(300)]
    expected[5] = "line 7, got a quote"
    check(
        source(tmp_path, "a.csv", "text,intent\n" + "\n".join(rows)).utterances(),
        expected,
    )


_EMOJI = "😀😀 fly to Rome"


@pytest.mark.parametrize(
    ("text", "start", "end", "value", "unit"),
    [
        (_EMOJI, 10, 14, "Rome", "characters"),
        (_EMOJI, 12, 16, "Rome", "utf-16"),
        (_EMOJI, 16, 20, "Rome", "bytes"),
        (_EMOJI, 3, 4, "Rome", "tokens"),
        ("from main station", 1, 2, "main station", "last-token"),
        ("off to NYC", 7, 10, "new york", "characters"),
    ],
)
def test_the_unit_of_spans_is_the_one_that_gives_their_text(
    tmp_path, text, start, end, value, unit
):
    entity = {"start": start, "end": end, "value": value, "entity": "city"}
    read = source(tmp_path, "a.jsonl", [{"text": text, "entities": [entity]}])
    (found,) = read.utterances()
    assert read.unit == unit
    assert found.tags[-1][2:] == "city"


def test_a_span_whose_text_is_elsewhere_is_a_problem_of_its_line(tmp_path):
    right = {"start": 3, "end": 7, "value": "Rome", "entity": "city"}
    rows = [
        {"text": "to Rome now", "entities": [right, {**right, "value": "Roma"}]}
    ] * 2
    rows.append({"text": f"Rome {SECRET} or Rome", "entities": [{**right, "end": 9}]})
    read = source(tmp_path, "a.jsonl", rows)
    assert read.survey.notes == {}, "it is no synonym"
    elsewhere = "entities in .* line 3 .* elsewhere .*--spans"
    check(read.utterances(), [*[said("to [city : Rome] now")] * 2, elsewhere])


def test_where_each_text_is_there_once_it_decides(tmp_path):
    right = {"start": 3, "end": 7, "value": "Rome", "entity": "city"}
    wrong = {**right, "start": 4, "end": 8}
    rows = [
        {"text": "to Rome now", "entities": [each]} for each in (right, right, wrong)
    ]
    read = source(tmp_path, "a.jsonl", rows)
    assert read.unit == "text"
    check(read.utterances(), [said("to [city : Rome] now")] * 3)


def test_signs_at_words(tmp_path):
    rows = [{"text": "Hi Maria!", "entities": [{"start": 3, "end": 8, "name": "who"}]}]
    read = source(tmp_path, "a.jsonl", rows)
    check(read.utterances(), [said("Hi [who : Maria!]")])
    assert read.adjusted["extended"] == 1
    finer = source(tmp_path, "a.jsonl", rows, tokenize="punctuation")
    check(finer.utterances(), [said("Hi [who : Maria] !")])
    assert not finer.adjusted


def test_what_is_not_there(tmp_path):
    with refused("got nothing there"):
        open_source(tmp_path / "b.csv", options=Options())
