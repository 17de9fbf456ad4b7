"""A report's document, as a browser would take it."""

import html.parser


class Reader(html.parser.HTMLParser):
    """What a browser would run, and where it would go."""

    def __init__(self):
        super().__init__()
        self.scripts, self.elsewhere, self.open = [], [], None

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elsewhere += [given[it] for it in ("src", "href", "action", "data") if it in given]
        if any(name.startswith("on") for name in given):
            self.elsewhere.append(f"a handler in {tag}")
        if tag == "script":
            self.open = [given.get("type"), ""]
            self.scripts.append(self.open)

    def handle_data(self, data):
        if self.open:
            self.open[1] += data

    def handle_endtag(self, tag):
        if tag == "script":
            self.open = None


def read(document):
    reader = Reader()
    reader.feed(document)
    reader.close()
    return reader
