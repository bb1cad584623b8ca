"""State diagram and transition table of docs/lifecycle.md, rendered from the table of moves."""

from __future__ import annotations

from .states import IN_ANY_STATE, MOVES, Move, State

MEANINGS = {
    State.SCHEDULED: "waits for its start time",
    State.QUEUED: "may be taken now",
    State.WAITING: "waits for other jobs",
    State.DISPATCHED: "handed to a worker that has not accepted it yet",
    State.RUNNING: "a worker holds a lease on it",
    State.FINISHED: "succeeded; kept as long as its result or the history of the queue",
    State.FAILED: "failed permanently; kept for the retention time",
    State.CANCELLED: "ended by request; kept for the retention time",
    State.SUSPENDED: "its code waits for a time, a signal or child jobs; no worker holds it",
}
EVERYWHERE = ("requeue", "delete")  # possible from every state: described in a sentence, not in the diagram


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
    """Return the text of docs/lifecycle.md."""
    meanings = [f"| {state.label} | {MEANINGS[state]} |" for state in State]
    drawn = [_row(move) for move in MOVES if _is_drawn(move)]
    return "\n".join(
        [
            "# The life of a job",
            "",
            "After reading this page you can tell what each job state means and which operations move a job between",
            "states.",
            "",
            "`make docs` generates this page from `src/windlass/core/states.py`; a test compares the two. The",
            "[glossary](glossary.md) explains *lease*, *take* and *dialect*.",
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
            "From every state a person may `requeue` a job (it becomes queued, and its lease ends) or `delete` it. A",
            "dialect may `complete_with_children` a job in any state.",
            "",
            "A job is in the index of exactly one state, with one exception: an overdue *retake* job is still running",
            "and can be taken at the same time. The old holder may report until another worker takes the job.",
            "",
            "| from | by | to | when |",
            "|---|---|---|---|",
            *drawn,
            "",
        ]
    )
