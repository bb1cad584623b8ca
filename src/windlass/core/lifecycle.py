"""The state picture, drawn from the table of moves."""

from __future__ import annotations

from .states import IN_ANY_STATE, MOVES, Move, State

MEANINGS = {
    State.SCHEDULED: "waits for its time",
    State.QUEUED: "may be taken now",
    State.WAITING: "waits for other jobs",
    State.DISPATCHED: "handed to a worker that has not accepted it yet",
    State.RUNNING: "a worker holds a lease on it",
    State.FINISHED: "ended well; kept while its result or the queue's history is",
    State.FAILED: "ended badly; kept for its retention",
    State.CANCELLED: "ended by request; kept for its retention",
}
EVERYWHERE = ("requeue", "delete")  # from every state: said in words, not drawn


def _is_drawn(move: Move) -> bool:
    return move.verb not in EVERYWHERE and move.note != IN_ANY_STATE


def _label(state: State | None) -> str:
    return "[*]" if state is None else state.label


def _arrows() -> list[str]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for move in MOVES:
        if _is_drawn(move):
            into = verbs.setdefault((_label(move.source), _label(move.target)), [])
            if move.verb not in into:
                into.append(move.verb)
    return [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in verbs.items()]


def _row(move: Move) -> str:
    source = "–" if move.source is None else move.source.label
    target = "gone" if move.target is None else move.target.label
    return f"| {source} | {move.verb} | {target} | {move.note} |"


def render() -> str:
    """docs/lifecycle.md, whole."""
    meanings = [f"| {state.label} | {MEANINGS[state]} |" for state in State]
    drawn = [_row(move) for move in MOVES if _is_drawn(move)]
    return "\n".join(
        [
            "# The life of a job",
            "",
            "Made from `src/windlass/core/states.py` by `make docs`; a test compares the two.",
            "",
            "| state | meaning |",
            "|---|---|",
            *meanings,
            "",
            "```mermaid",
            "stateDiagram-v2",
            *_arrows(),
            "```",
            "",
            "From every state a person may `requeue` a job (back to queued; a lease on it ends) and `delete` it; a",
            "dialect may `conclude` it so.",
            "A job is in the index of exactly one state. The one exception: an overdue *retake* job is still running,",
            "and takeable at the same time; the old holder may report until somebody else takes it.",
            "",
            "| from | by | to | when |",
            "|---|---|---|---|",
            *drawn,
            "",
        ]
    )
