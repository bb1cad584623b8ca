"""Content of a page of HTML: its links, anchors, what it loads, and its text block by block."""

from __future__ import annotations

from html.parser import HTMLParser

# What a browser fetches by itself.
LOADING = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "audio": "src", "video": "src"}
LOADING_RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch"}
BLOCKS = {"h1", "h2", "h3", "h4", "h5", "p", "li", "pre", "th", "td", "blockquote", "ul", "ol", "table"}
VOID = {"img", "br", "hr", "source", "input", "link", "meta"}


class HtmlPage(HTMLParser):
    """A page, or the part of it inside of an element."""

    def __init__(self, content: str, within: str = "") -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.blocks: list[list[str]] = []  # name of an element, then its words
        self._within = within
        self._depth = 0 if within else 1
        self._hidden = 0
        self.feed(content)

    @property
    def text(self) -> list[tuple[str, str]]:
        """Return the blocks with their words. Spaces and breaks of lines do not count."""
        return [(name, "".join("".join(words).split())) for name, *words in self.blocks]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._note(tag, given)
        if tag == self._within or (self._depth and self._within and tag not in VOID):
            self._depth += 1
        if self._hidden and tag not in VOID:
            self._hidden += 1
        elif "headerlink" in given.get("class", "") or tag in ("script", "style", "svg", "nav", "button"):
            self._hidden = 1
        if self._depth and not self._hidden and tag in BLOCKS:
            self.blocks.append([tag])

    def handle_endtag(self, tag: str) -> None:
        if self._depth and self._within and tag not in VOID:
            self._depth -= 1
        if self._hidden and tag not in VOID:
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if self._depth and not self._hidden and self.blocks:
            self.blocks[-1].append(data)

    def _note(self, tag: str, given: dict[str, str]) -> None:
        if "id" in given:
            self.anchors.add(given["id"])
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        if tag in LOADING and LOADING[tag] in given:
            self.loads.append(given[LOADING[tag]])
        if tag == "link" and LOADING_RELATIONS & set(given.get("rel", "").split()):
            self.loads.append(given["href"])
