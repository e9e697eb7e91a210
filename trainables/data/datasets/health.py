"""The grammar of a generated corpus."""

from typing import Literal

from trainables.data.configs import MadeFrames
from trainables.data.datasets import _lexicon
from trainables.data.synthetic import Domain, uniform, zipf

DOMAIN = Domain(
    name="health",
    intents={
        "log_medication": """
            (log|record|note) (that i took|) {dosage} of {drug} (|at {time})
            i (took|had|swallowed) {drug} (|at {time}|{date})
            i (took|had) {dosage} of {drug} {frequency}
            (log|record) my {drug} from {date}
        """,
        "remind_medication": """
            remind me to take {drug} (at {time}|{frequency}|{date})
            (set|add|make|create) a reminder for {dosage} of {drug} {frequency}
            (wake|alert|call|warn) me at {time} for my {drug}
            (remind|tell) {person} to (take|swallow) {drug} (|for {duration})
        """,
        "report_symptom": """
            i (have|feel|suffer from) {symptom} (|since {date}|for {duration})
            my {body_part} (hurts|aches|is swollen) (|since {date}|for {duration})
            (log|record) {severity} {symptom} in my {body_part}
            {person} has {severity} {symptom} (|since {date})
            i have had {symptom} since i took {drug}
        """,
        "book_appointment": """
            (book|make|schedule) an appointment with {doctor} (|{date}|at {time})
            (book|schedule) a {procedure} at {clinic} (|{date})
            i need to see a {specialty} (|{date}|about my {body_part})
            (find|book) a {specialty} at {clinic} for {person}
            (move|shift) my appointment with {doctor} to {date} at {time}
        """,
        "ask_side_effects": """
            (what are|list|tell me|read me) the (side effects|risks) of {drug}
            (does|can|could) {drug} cause {symptom}
            is {symptom} (normal|common) (after|with) {dosage} of {drug}
            (can|may) i take {drug} (with|and) {drug}
        """,
        "ask_condition": """
            (what is|explain|tell me about) {condition}
            (what are|list|tell me|read me) the (symptoms|signs) of {condition}
            (is|could it be that) {symptom} (is|means) {condition}
            how (long|many days) does {condition} last
            (which|what) {specialty} treats {condition}
        """,
        "refill_prescription": """
            (refill|renew|reorder) (my|the) (prescription|order) (for|of) {drug}
            (refill|renew) prescription {record_number} (|at {clinic})
            (order|get) {dosage} of {drug} for {person}
        """,
        "log_measurement": """
            my {measurement} (is|was) {value} (|{date}|at {time})
            (log|record|save|note) (a|the) {measurement} of {value}
            (log|record) {value} as my {measurement} for {date}
            {person} has a {measurement} of {value}
        """,
        "get_results": """
            (show|read|get) (me|) the (results|report) of my {procedure} (|from {date})
            (are|do i have) the results from {clinic}
            (read|show) record {record_number} (|to {doctor})
            what did {doctor} say about my {procedure}
        """,
        "share_record": """
            (send|share|forward) my {procedure} (results|report) (to|with) {doctor}
            (send|share|forward) record {record_number} (to|with) {clinic}
            (tell|inform|remind) {doctor} that i have {condition}
            (tell|inform) {person} about my {condition}
        """,
    },
    slots={
        "drug": zipf("{common_drug}; {rare_drug}; {rare_drug} {drug_form}"),
        "dosage": zipf(
            "{count} milligrams; {small_number} tablets; one pill; {count} drops"
        ),
        "frequency": zipf(
            "every day; twice a day; every {weekday}; every {small_number} hours;"
            " weekly"
        ),
        "symptom": zipf(
            "headache; fever; nausea; a cough; a rash; dizziness; fatigue; chills; back"
            " pain; chest pain; itching; blurred vision; cramps; night sweats;"
            " shortness of breath; ringing in the ears; numb fingers; loss of smell"
        ),
        "severity": zipf("mild severe moderate sharp dull constant strong unbearable"),
        "body_part": zipf(
            "back; head; knee; stomach; throat; shoulder; chest; foot; hip; neck; eye;"
            " ear; wrist; elbow; ankle; {side} {limb}; {side} {limb}"
        ),
        "condition": zipf(
            "asthma; diabetes; migraine; high blood pressure; flu; anemia; arthritis;"
            " eczema; pneumonia; gout; {eponym} disease; {eponym} syndrome; type"
            " {small_number} {eponym} disease"
        ),
        "doctor": zipf("doctor {family_name}; doctor {rare_name}; nurse {first_name}"),
        "specialty": zipf(
            "dentist dermatologist cardiologist neurologist pediatrician urologist"
            " oncologist surgeon psychiatrist optician"
        ),
        "clinic": zipf(
            "{place_stem}{place_end} {clinic_kind}; the {family_name} {clinic_kind};"
            " saint {first_name} {clinic_kind}"
        ),
        "procedure": zipf(
            "blood test; check-up; x-ray; vaccination; scan; biopsy; eye test; {eponym}"
            " test; {body_scan} scan"
        ),
        "record_number": zipf("{code4}{two_digits}; {code4}-{code4}; {spoken4}"),
        "measurement": zipf(
            "weight; temperature; pulse; blood pressure; blood sugar; oxygen level"
        ),
        "value": zipf(
            "{two_digits}; {digit}{two_digits}; {two_digits} over {two_digits}"
        ),
        "person": zipf("{relative}; {person}; {person}"),
        "date": _lexicon.DATE,
        "time": _lexicon.TIME,
        "duration": _lexicon.DURATION,
    },
    rules=_lexicon.RULES
    | {
        "common_drug": zipf(
            "aspirin ibuprofen paracetamol insulin metformin penicillin codeine"
            " morphine melatonin"
            " cortisone amoxicillin prednisone warfarin lithium diazepam"
        ),
        "drug_stem": uniform("{syllable}{syllable}; {syllable}{vowel}{onset}"),
        "drug_end": zipf("ol ine in ate ide azole mab pril statin cillin oxin tide"),
        "rare_drug": uniform("{drug_stem}{drug_end}; {drug_stem}{vowel}{drug_end}"),
        "drug_form": zipf("cream; syrup; spray; injection; patch; forte"),
        "side": uniform("left right"),
        "limb": zipf("knee arm leg hand foot shoulder ear eye thumb heel"),
        "eponym": zipf("{last_name}; {rare_name}; {rare_name}-{rare_name}"),
        "clinic_kind": zipf("clinic; hospital; medical center; practice; pharmacy"),
        "body_scan": zipf("brain bone heart lung liver kidney"),
        "relative": zipf(
            "my mother; my son; my daughter; my father; my wife; my husband; my"
            " grandmother; my brother; my sister; the baby"
        ),
    },
    openings=_lexicon.OPENINGS,
    closings=_lexicon.CLOSINGS,
)


class Health(MadeFrames):
    """Generated corpus: medication, symptoms, appointments, with drugs and names of one
    record each.
    """

    place = "made/health"
    domain = DOMAIN

    name: Literal["health"] = "health"
