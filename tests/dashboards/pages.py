"""What a written page says, read as a browser does."""

from html.parser import HTMLParser

VOID = {"meta", "link"}


class Page(HTMLParser):
    """The page's elements, its text, and whether every element that opens also
    closes.
    """

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.open = []
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def having(self, name):
        return [attributes for _, attributes in self.elements if name in attributes]


def cells_of(page):
    """The exact numbers of a page's tables: (trial, metric) -> value."""
    trial, found = "", {}
    for tag, given in Page(page).elements:
        if tag == "tr":
            trial = given.get("data-trial", "")
        if trial and given.get("data-metric") and given.get("data-value"):
            found[trial, given["data-metric"]] = float(given["data-value"])
    return found
