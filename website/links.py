"""Links of documents: found outside of code, and rewritten from places in the repository to places in the site."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from website.repository import site_path

CODE = re.compile(r"^ *(```+).*?^ *\1 *$|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
# Markdown links and images, definitions of references, and the attributes of HTML.
LINK = re.compile(
    r"""(?<=\]\()[^)\s]+(?=\)) | (?<=\]:\ )\S+ | (?:(?<=\ src=")|(?<=\ href=")|(?<=\ srcset="))[^"]+""", re.VERBOSE
)
SCHEME = re.compile(r"[a-z]+:")


def replace_links(text: str, replacement: Callable[[str], str]) -> str:
    """Return a document with its links replaced. Code stays as it is."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(lambda found: replacement(found[0]), text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(lambda found: replacement(found[0]), text[end:])])


def links_of(text: str) -> Iterator[str]:
    found: list[str] = []
    replace_links(text, lambda link: found.append(link) or link)  # type: ignore[func-returns-value]
    yield from found


def is_local(link: str) -> bool:
    return not SCHEME.match(link) and not link.startswith("#")


def target_of(link: str, document: PurePosixPath) -> PurePosixPath:
    """Return the path in the repository to which a local link of a document leads."""
    return PurePosixPath(os.path.normpath(document.parent / link.partition("#")[0]))


def site_link(link: str, document: PurePosixPath) -> str:
    """Return a link of a document as a link between pages of the site."""
    if not is_local(link):
        return link
    _, mark, anchor = link.partition("#")
    target = site_path(target_of(link, document))
    return os.path.relpath(target, site_path(document).parent) + mark + anchor
