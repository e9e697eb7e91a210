"""The grammar of a generated corpus."""

from typing import Literal

from trainables.data.configs import MadeFrames
from trainables.data.datasets import _lexicon
from trainables.data.synthetic import Domain, zipf

DOMAIN = Domain(
    name="communication",
    intents={
        "make_call": """
            (call|phone|ring|dial) {contact}
            (call|phone|ring) {contact} on (his|her|their|the) {phone_type}
            (dial|call|ring) {phone_number}
            (call|phone) my {relation} (|at {phone_type})
            (place|make|start) a {call_type} call to {contact}
            (call|ring) {contact} (with|using|over) {app}
        """,
        "send_message": """
            (send|write) a (message|text) to {contact}
            (text|message) {contact} (that|saying) {message}
            (tell|let) {contact} (know|hear) {message}
            (send|write) {contact} a {app} (message|note) saying {message}
            (text|message|tell) my {relation} (|that) {message}
            send {message} to {phone_number}
        """,
        "read_messages": """
            (read|show|open) my (messages|texts) (|from {contact})
            (read|show) (the|my) {filter} (message|text) from {contact}
            (do i have|are there) {filter} {app} messages (|from {date})
            what did {contact} (write|say|send) (|{date})
            (read|play) the messages from my {relation}
        """,
        "send_mail": """
            (send|write|compose) (an email|a mail) to {address}
            (email|mail) {contact} about {subject}
            (write|compose|draft|start) (an email|a mail) to {contact} with the subject {subject}
            (forward|send) the {filter} mail to {address}
            (email|mail) my {relation} about {subject} (|{date})
        """,
        "add_contact": """
            (add|save|put) {contact} (to|in) my (contacts|phone book)
            (save|store) {phone_number} as {contact}
            (add|create) a contact for {contact} with (number|the number) {phone_number}
            (add|save) the address {address} (to|for) {contact}
            make {contact} my {relation}
        """,
        "find_contact": """
            (what is|tell me|find) the {phone_type} number of {contact}
            (what is|give me|look up) the email address of {contact}
            (who|whose number) is {phone_number}
            (find|look up|search|show) {contact} in my (contacts|phone book)
            do i have a number for {contact} (|at {company})
        """,
        "schedule_call": """
            (schedule|plan|set up) a {call_type} call with {contact} (on|for) {date}
            (schedule|book) a call with {contact} at {time} (|on {date})
            (remind me to|let me) call {contact} (at {time}|on {date})
            (move|shift) my call with {contact} to {time}
            (plan|set up) {duration} with {contact} from {company}
        """,
        "answer_call": """
            (answer|pick up|take|accept) the (call|phone)
            (answer|take|accept) the call from {contact}
            (answer|take) the {call_type} call on my {device}
            (pick up|answer) on {device}
            (decline|reject|ignore) the call from {contact}
        """,
        "play_voicemail": """
            (play|check|read|open) my (voicemail|answering machine) (|from {contact})
            (play|read) the {filter} voicemail (|from {date})
            did {contact} (leave|send) a voicemail
            (play|delete) the voicemail from {phone_number}
        """,
        "block_contact": """
            (block|mute|silence|ignore) {contact} (|for {duration})
            (block|mute) {phone_number} (|for {duration})
            (block|silence) (calls|messages) from {contact} on {app}
            (stop|mute) messages from {company} (|for {duration})
        """,
        "group_chat": """
            (start|create|open|make) a {app} (group|chat) with {contact} and {contact}
            (add|invite) {contact} to the {group_name} (group|chat)
            (leave|mute) the {group_name} (group|chat) (|for {duration})
            (tell|write to) the {group_name} group {message}
        """,
    },
    slots={
        "contact": zipf("{person}; {person}; {title} {family_name}"),
        "phone_number": zipf(
            "{code4}{code4}; {spoken4} {spoken4}; {two_digits} {code4}"
        ),
        "address": zipf(
            "{first_name}.{rare_name}@{provider}; {first_name}{two_digits}@{provider};"
            " {rare_name}@{provider}"
        ),
        "phone_type": zipf("mobile work home office cell landline satellite"),
        "relation": zipf(
            "mother wife husband father sister brother boss son daughter doctor"
            " neighbor lawyer"
            " landlord cousin aunt uncle grandmother teacher plumber dentist"
        ),
        "call_type": zipf("video; phone; conference; voice; emergency; three way"),
        "app": zipf("chatter; pingo; signal hill; talkbox; blue wire; hummingnote"),
        "filter": zipf("last; new; unread; latest; first; missed; urgent"),
        "device": zipf(
            "phone; tablet; kitchen speaker; car; watch; living room screen"
        ),
        "company": zipf(
            "{rare_name} and {rare_name}; {rare_name} {trade}; {rare_name}"
        ),
        "group_name": zipf(
            "family; {topic}; {place_stem}{place_end} {topic}; team {topic}"
        ),
        "subject": zipf(
            "{topic}; the {topic}; {topic} in {place_stem}{place_end}; invoice {code4}"
        ),
        "message": zipf(
            "i am {late}; i will be there at {hour}; happy birthday; meet me at"
            " {place_stem}{place_end} at {hour}; the door code is {code4}; see you"
            " {weekday}; bring the {topic} to {first_name}; my new number is"
            " {code4}{code4}; the {topic} is on {weekday} at {hour}"
        ),
        "date": _lexicon.DATE,
        "time": _lexicon.TIME,
        "duration": _lexicon.DURATION,
    },
    rules=_lexicon.RULES
    | {
        "title": zipf("mister; doctor; miss; professor; aunt; uncle; captain"),
        "provider": zipf("mailbox.example post.example office.example letters.example"),
        "trade": zipf(
            "bank motors insurance logistics bakery plumbing travel dental energy"
        ),
        "topic": zipf(
            "football dinner budget party meeting trip rent concert report holiday"
            " chess garden wedding insurance boat taxes harvest lottery"
        ),
        "late": zipf(
            "late; on my way; at home; {count} minutes late; stuck in traffic"
        ),
    },
    openings=_lexicon.OPENINGS,
    closings=_lexicon.CLOSINGS,
)


class Communication(MadeFrames):
    """Generated corpus: calls, messages, mail, contacts, with names and numbers of one
    record each.
    """

    place = "made/communication"
    domain = DOMAIN

    name: Literal["communication"] = "communication"
