"""Almost valid inputs: inputs of the corpus, changed a little or a lot. A seed gives the same inputs again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

SIZE_MAX = 64 * 1024  # bytes of an input
_NUMBERS = (
    b"0", b"-1", b"00", b"007", b"-0", b"+1", b"1.5", b"1e309", b"-1e309", b"1e-400", b"0x10", b"2147483648",
    b"4294967296", b"9223372036854775808", b"18446744073709551616", b"9" * 30, b"9" * 400, b"9" * 5000, b"NaN",
    b"Infinity", b"1_000", "٣".encode(), "²".encode(), "１".encode(),
)  # fmt: skip
_ODDITIES = (
    b"\x00", b"\r", b"\n", b"\r\n", b"\t", b" ", b"\x7f", b"\x80", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88",
    b"\xef\xbb\xbf", b"\xff\xfe", "é".encode(), "ı".encode(), "\u2028".encode(), "\u202e".encode(), "🧵".encode(),
    b"%00", b"%", b"%zz", b"%C0%AF", b"\\ud800", b"\\u0000", b"\\", b'"', b"'", b"`", b"..", b"/", b"//", b"*", b"?",
    b"[", b"]", b"[^", b"(", b"{", b"}", b",", b":", b"::", b";", b"=", b"@", b"#", b"&", b"--", b"/*", b"null",
    b"true", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc7\xff\xff",
)  # fmt: skip
_OPENINGS = (b"[", b'{"a":', b"(", b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"[[", b"((", b'"', b"\\", b"'", b"{")
_NUMBER = re.compile(rb"\d+")


class Mutator:
    """Generator of inputs, each made of one or two inputs of the corpus."""

    def __init__(self, corpus: Sequence[bytes], seed: str) -> None:
        self._corpus = list(corpus) or [b""]
        self._random = random.Random(seed)
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self._flip, self._flip, self._cut, self._cut, self._drop, self._double, self._repeat, self._insert,
            self._insert, self._number, self._number, self._splice, self._splice, self._nest, self._shuffle,
            self._recode,
        )  # fmt: skip

    def inputs(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            data = self._random.choice(self._corpus)
            for _ in range(self._random.choice((1, 1, 2, 3, 8))):
                data = self._random.choice(self._ways)(data)[:SIZE_MAX]
            yield data

    def pieces(self, data: bytes) -> list[bytes]:
        """Split the bytes into pieces; a short input into single bytes."""
        if len(data) < 2:
            return [data]
        most = len(data) - 1 if len(data) <= 64 else 12
        cuts = sorted(self._random.sample(range(1, len(data)), min(most, len(data) - 1)))
        return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _place(self, data: bytes) -> int:
        return self._random.randint(0, len(data))

    def _range(self, data: bytes) -> tuple[int, int]:
        start = self._place(data)
        return start, min(len(data), start + self._random.choice((1, 2, 4, 16, 64)))

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._random.randrange(len(data))
        changed = self._random.choice((data[at] ^ 1 << self._random.randrange(8), self._random.randrange(256)))
        return data[:at] + bytes([changed]) + data[at + 1 :]

    def _cut(self, data: bytes) -> bytes:
        at = self._place(data)
        return self._random.choice((data[:at], data[at:]))

    def _drop(self, data: bytes) -> bytes:
        start, stop = self._range(data)
        return data[:start] + data[stop:]

    def _double(self, data: bytes) -> bytes:
        start, stop = self._range(data)
        return data[:stop] + data[start:]

    def _repeat(self, data: bytes) -> bytes:
        start, stop = self._range(data)
        return data[:start] + data[start:stop] * self._random.choice((10, 300, 5000)) + data[stop:]

    def _insert(self, data: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + self._random.choice(_ODDITIES) + data[at:]

    def _number(self, data: bytes) -> bytes:
        """Replace a number, or insert a number where there is none."""
        found = list(_NUMBER.finditer(data))
        other = self._random.choice(_NUMBERS)
        if not found:
            at = self._place(data)
            return data[:at] + other + data[at:]
        number = self._random.choice(found)
        return data[: number.start()] + other + data[number.end() :]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._corpus)
        return data[: self._place(data)] + other[self._place(other) :]

    def _nest(self, data: bytes) -> bytes:
        opening = self._random.choice(_OPENINGS)
        at = self._random.choice((0, self._place(data)))
        return data[:at] + opening * self._random.choice((3, 150, 1200, 20_000)) + data[at:]

    def _shuffle(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        self._random.shuffle(lines)
        return b"\n".join(lines)

    def _recode(self, data: bytes) -> bytes:
        text = data.decode(errors="replace")
        return self._random.choice(
            (data.decode("latin-1").encode(), text.encode("utf-16"), data.upper(), data.swapcase())
        )
