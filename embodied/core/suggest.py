"""Closest valid names for a misspelt one, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """Find the candidates that a misspelt or incomplete name most likely meant.

    Names may be dotted. A candidate whose last part equals that of `name` counts as close, so that
    `lr` finds `agent.opt.lr`; after that come similar spellings of the whole name and of its last
    part.

    Args:
      name: What the user wrote.
      candidates: The valid names.
      limit: How many names to return at most.

    Returns:
      Valid names, best first; empty if nothing is similar.
    """
    names = list(dict.fromkeys(candidates))
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    last = name.lower().rsplit(".", 1)[-1]
    endings: dict[str, list[str]] = {}
    for candidate in names:
        endings.setdefault(candidate.lower().rsplit(".", 1)[-1], []).append(candidate)
    whole = difflib.get_close_matches(name.lower(), list(lowered), limit, cutoff=0.8)
    loose = difflib.get_close_matches(name.lower(), list(lowered), limit, cutoff=0.6)
    similar = difflib.get_close_matches(last, list(endings), limit, cutoff=0.7)
    found = [lowered[match] for match in whole]
    found += endings.get(last, [])
    found += [lowered[match] for match in loose]
    found += [candidate for match in similar for candidate in endings[match]]
    return list(dict.fromkeys(found))[:limit]


def hint(name: str, candidates: Iterable[str], limit: int = 3) -> str:
    """Phrase `closest` as the end of an error message, with a leading space, or ''."""
    found = closest(name, candidates, limit)
    return f" Did you mean {' or '.join(repr(match) for match in found)}?" if found else ""
