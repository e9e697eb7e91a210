"""The grammar of a generated corpus."""

from typing import Literal

from trainables.data.configs import MadeFrames
from trainables.data.datasets import _lexicon
from trainables.data.synthetic import Domain, zipf

DOMAIN = Domain(
    name="video",
    intents={
        "play_video": """
            (play|watch|start|put on) {title}
            (play|watch|start) {title} (on|with|using) {service}
            (play|start) {title} (on|in) the {device}
            (play|watch) the {order} (movie|film) (with|by) {person}
            i want to (watch|see) {title} (|in {quality})
        """,
        "play_episode": """
            (play|watch|start) season {number} (|episode {number}) of {series}
            (play|watch) the {order} episode of {series} (|on {service})
            (continue|resume|go on with) {series} (|on {service}|in the {device})
            (play|start) {series} from episode {number}
        """,
        "search_video": """
            (find|search for|look for) {genre} (movies|films|shows) (|from {year})
            (find|show me) (movies|films) (with|by|starring) {person}
            (find|search) {genre} (movies|shows) on {service}
            (which|what) {genre} (film|movie) from {year} has {person} in it
            (show|find) something like {title}
        """,
        "rate_video": """
            (rate|give) {title} {rating} (|on {service})
            (give|rate|score) the {order} (episode|season) of {series} {rating}
            (i|we|the kids) (liked|loved|hated|enjoyed) {title}
            (rate|score) {series} with {rating} for {profile}
        """,
        "add_to_list": """
            (add|save|put) {title} (to|on) my {list_name} (|list)
            (add|save|copy) {series} to the (list|queue) of {profile}
            (save|keep) {title} for {date}
            (remove|delete) {title} from my {list_name} list
        """,
        "ask_video": """
            who (directed|wrote|made|stars in|plays in) {title}
            (when|in which year) (was|did) {title} (released|come out)
            (how long|what) is {title}
            is {title} (on|available on) {service}
            (what is|tell me) the rating of {title} from {year}
        """,
        "control_playback": """
            (skip|go|jump) (forward|back|ahead) {duration}
            (turn|switch) on {language} subtitles
            (switch|change) the (language|audio) to {language}
            (play|show) this in {quality}
            (pause|stop) the {device} (|in {duration})
        """,
        "record_show": """
            (record|tape) {series} (on|from) {channel} (|{date}|at {time})
            (record|save) everything with {person}
            (cancel|stop) the recording of {series}
            (record|tape) channel {number} (at {time}|{date})
        """,
        "watch_channel": """
            (switch|change|go|turn) (|back|over) to {channel}
            (what is|tell me what is) on {channel} (|at {time}|{date})
            (switch|tune) to channel {number}
            (watch|show|put on) the {genre} on {channel}
        """,
        "rent_video": """
            (rent|buy|get) {title} (|on {service}|in {quality})
            (rent|order|buy) {title} with (code|voucher) {voucher}
            (buy|rent) season {number} of {series} for {profile}
            (how much|what) is {title} (on|with) {service}
        """,
    },
    slots={
        "title": zipf(
            "{famous_title}; the {adjective} {noun}; {noun} of {place_stem}{place_end};"
            " {rare_name}; the {noun} of {rare_name}; {adjective} {noun} {number};"
            " {first_name} and the {adjective} {noun}; {number} {noun}s; {year}"
        ),
        "series": zipf(
            "{famous_series}; the {noun}s; {place_stem}{place_end}; {family_name} and"
            " sons; the {adjective} {noun}s of {place_stem}{place_end}; {noun} {year}"
        ),
        "person": zipf("{person}; {first_name} {rare_name}; {family_name}"),
        "profile": zipf("{first_name}; the kids; my {noun}; {rare_name}"),
        "genre": zipf(
            "comedy; action; horror; drama; romance; documentary; thriller; western;"
            " science fiction; crime; anime; musical; film noir; silent; cooking"
        ),
        "service": zipf("streamo; cinebox; flixtree; prime owl; moviemoon; red barn"),
        "device": zipf(
            "tv; living room; tablet; bedroom; kitchen screen; projector; laptop"
        ),
        "quality": zipf("high definition; four k; hd; low quality; black and white"),
        "channel": zipf(
            "news one; sports two; channel {number}; {place_stem}{place_end} tv; kids"
            " tv"
        ),
        "order": zipf("last; first; next; latest; newest; {ordinal}"),
        "number": zipf("{small_number}; {digit}; {two_digits}"),
        "rating": zipf(
            "{small_number} stars; five stars; thumbs up; thumbs down; one star"
        ),
        "year": zipf("19{two_digits}; 20{two_digits}; the {decade}"),
        "list_name": zipf("watch; favorites; weekend; {genre_word}; {first_name}"),
        "language": zipf(
            "english spanish french german italian japanese korean hindi polish swedish"
            " turkish"
        ),
        "voucher": zipf("{code4}{code4}; {syllable}{code4}; {spoken4}"),
        "date": _lexicon.DATE,
        "time": _lexicon.TIME,
        "duration": _lexicon.DURATION,
    },
    rules=_lexicon.RULES
    | {
        "adjective": zipf(
            "last lost silent golden dark secret broken little final crimson hidden"
            " endless frozen hollow burning distant forgotten wild bitter velvet"
        ),
        "noun": zipf(
            "king night river house garden soldier dragon winter letter island mirror"
            " road witness"
            " lantern ocean thief orchard machine sparrow comet harbor prophet violin"
        ),
        "famous_title": zipf(
            "the golden river; night train; winter house; the last letter; dragon"
            " island; three "
            "soldiers; the silent king; ocean road; love in june; broken mirror"
        ),
        "famous_series": zipf(
            "harbor street; the wild road; doctor winter; night shift; kings and"
            " thieves; the lantern; comet; two sisters"
        ),
        "number": zipf("{small_number}; {digit}; {two_digits}"),
        "year": zipf("19{two_digits}; 20{two_digits}"),
        "decade": zipf("nineties eighties seventies sixties fifties thirties"),
        "genre_word": zipf("comedy action horror drama crime family"),
    },
    openings=_lexicon.OPENINGS,
    closings=_lexicon.CLOSINGS,
)


class Video(MadeFrames):
    """Generated corpus: films, series and channels, with titles and names of one record
    each.
    """

    place = "made/video"
    domain = DOMAIN

    name: Literal["video"] = "video"
