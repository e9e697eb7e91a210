"""Rules that the generated corpora share: invented people, numbers, days and times."""

from trainables.data.synthetic import Rule, uniform, zipf

_FIRST = """
james mary robert patricia john jennifer michael linda david elizabeth william barbara richard susan
joseph jessica thomas sarah charles karen christopher lisa daniel nancy matthew betty anthony sandra
mark ashley donald emily steven kimberly andrew margaret paul donna joshua michelle kenneth carol
kevin amanda brian melissa george deborah timothy stephanie ronald rebecca jason laura edward sharon
jeffrey cynthia ryan kathleen jacob amy gary angela nicholas shirley eric brenda jonathan emma larry
anna justin pamela scott nicole brandon samantha benjamin katherine samuel christine gregory helen
alexander debra patrick rachel frank carolyn raymond janet jack maria dennis olivia jerry heather
aisha bjorn chiara dmitri eleni farid giulia hana ines jorge kenji leila mateo nadia oskar priya
quentin rosa sven tomoko ulrike vikram wanda ximena yusuf zofia
"""
_LAST = """
smith johnson williams brown jones garcia miller davis rodriguez martinez hernandez lopez gonzalez
wilson anderson thomas taylor moore jackson martin lee perez thompson white harris sanchez clark
ramirez lewis robinson walker young allen king wright scott torres nguyen hill flores green adams
nelson baker hall rivera campbell mitchell carter roberts novak okafor tanaka lindqvist rossi patel
"""
_ONSETS = "b br ch d dr f fl g gr h j k kl l m n p r s sh st t th tr v w y z"
_VOWELS = "a e i o u ai ea ie oo ou"
_CODAS = "n r l s t m nd rk lt ss ck x rg mp"

RULES: dict[str, Rule] = {
    "first_name": zipf(_FIRST),
    "last_name": zipf(_LAST),
    "onset": uniform(_ONSETS),
    "vowel": uniform(_VOWELS),
    "coda": uniform(_CODAS),
    "syllable": uniform("{onset}{vowel}; {onset}{vowel}{coda}"),
    # Some 100,000 family names, most of them of one record.
    "rare_name": uniform("{syllable}{syllable}; {syllable}{syllable}{syllable}"),
    "family_name": zipf("{last_name}; {rare_name}; {last_name} {rare_name}"),
    "person": zipf(
        "{first_name}; {first_name} {family_name}; {first_name} {rare_name}"
    ),
    "digit": uniform("0 1 2 3 4 5 6 7 8 9"),
    "spoken_digit": uniform("zero one two three four five six seven eight nine"),
    "code4": uniform(["{digit}{digit}{digit}{digit}"]),
    "spoken4": uniform(["{spoken_digit} {spoken_digit} {spoken_digit} {spoken_digit}"]),
    "two_digits": uniform(["{digit}{digit}"]),
    "small_number": zipf(
        "two three five ten four six one fifteen twenty eight thirty seven nine"
    ),
    "count": zipf("{small_number}; {small_number}; {digit}{digit}"),
    "weekday": uniform("monday tuesday wednesday thursday friday saturday sunday"),
    "month": uniform(
        "january february march april may june july august september october november"
        " december"
    ),
    "ordinal": uniform(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh"
        " twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth"
        " nineteenth twentieth"
    ),
    "hour": uniform("one two three four five six seven eight nine ten eleven twelve"),
    "half_day": uniform("am; pm; in the morning; in the evening; o'clock"),
    "minutes": zipf("thirty fifteen forty-five ten twenty forty fifty five"),
    "place_stem": uniform("{syllable}{syllable}; {syllable}"),
    "place_end": zipf("ton ville field burg ford port dale wood mouth haven"),
}

DATE = zipf(
    "today; tomorrow; {weekday}; next {weekday}; {month} {ordinal}; this {weekday}; the"
    " {ordinal} of {month}; next week; this weekend"
)
TIME = zipf(
    "{hour} {half_day}; noon; {hour} {minutes}; {hour} {minutes} {half_day}; midnight"
)
DURATION = zipf(
    "{count} minutes; an hour; {count} hours; half an hour; {count} days; a week"
)
# Before and after any sentence, a command as well as a statement.
OPENINGS = zipf(
    "; ; ; hey; ok; please; listen; so; well; hello; now; hey there; um; one more"
    " thing; quick one"
)
CLOSINGS = zipf("; ; ; please; now; thanks; right away; thank you; ok")
