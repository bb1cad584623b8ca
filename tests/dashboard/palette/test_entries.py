"""Selection and order of the entries of the palette."""

from __future__ import annotations

from windlass.dashboard.palette.entries import PER_KIND_MAX, SHOWN_MAX, Entry, select


def entry(title: str, kind: str = "Queue", **more: str) -> Entry:
    return Entry(kind=kind, title=title, **more)


def titles(query: str, *entries: Entry) -> list[str]:
    return [found.title for found in select(query, entries)]


def test_every_word_must_be_in_the_title_the_kind_the_note_or_the_other_words() -> None:
    pause = entry("Pause the queue mail", "Action")
    noted = entry("nightly", "Schedule", note="send in mail")
    assert titles("MAIL pau", pause, noted) == ["Pause the queue mail"]
    assert titles("mail schedule", pause, noted) == ["nightly"]
    assert titles("new", entry("Enqueue a job", "Action", words="new")) == ["Enqueue a job"]
    assert titles("mail xyz", pause, noted) == []


def test_titles_that_begin_with_the_words_come_first_then_words_that_do() -> None:
    found = titles("mail", entry("gmail"), entry("other mail"), entry("x", note="mail"), entry("mail"), entry("Mail 2"))
    assert found == ["mail", "Mail 2", "other mail", "gmail", "x"]


def test_equal_entries_keep_their_order_and_no_kind_takes_all_places() -> None:
    many = [entry(f"q{number}") for number in range(100)]
    found = select("q", [*many, entry("queues", "Page")])
    assert [one.title for one in found] == [*(f"q{number}" for number in range(PER_KIND_MAX)), "queues"]
    wide = [entry(f"q{number}", f"kind {number}") for number in range(100)]
    assert len(select("q", wide)) == SHOWN_MAX


def test_without_words_everything_is_selected_in_its_order() -> None:
    assert titles("  ", entry("b"), entry("a")) == ["b", "a"]
