"""Render a path prediction as text and JSON, with the observed sizes where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testbed.text_columns import aligned

if TYPE_CHECKING:
    from testbed.path.predict import Hop
    from testbed.path.verify import Checked


def as_record(hops: Sequence[Hop], checked: Sequence[Checked] | None = None) -> dict[str, Any]:
    """`hops`, one object each; with `checked` (one for each hop) the field `agrees` for the whole too."""
    from testbed.path.verify import all_agree

    records = [_record(hop) for hop in hops]
    if checked is None:
        return {"hops": records}
    for record, check in zip(records, checked, strict=True):
        record |= {
            "seen": check.seen,
            "largest_seen": check.largest_seen,
            "verdict": check.verdict,
            "class": check.kind,
            "agrees": check.agrees,
        }
    return {"hops": records, "agrees": all_agree(checked)}


def as_table(hops: Sequence[Hop], checked: Sequence[Checked] | None = None) -> str:
    """One line a hop: the largest packet, how it crosses, and what was seen."""
    rows = [("device", "", "largest", "as", "seen" if checked else "", "")]
    for index, hop in enumerate(hops):
        seen = _seen(checked[index]) if checked else ("", "")
        rows.append((hop.reference, hop.direction, str(hop.largest), _manner(hop), *seen))
    return "\n".join(aligned(rows, right=(2, 4))) + "\n"


def _record(hop: Hop) -> dict[str, Any]:
    return {
        "device": hop.reference,
        "direction": hop.direction,
        "largest": hop.largest,
        "gso": hop.gso,
        "cut": hop.cut,
        "why": hop.why,
        "passes": hop.passes,
        "merged": hop.merged,
    }


def _manner(hop: Hop) -> str:
    manner = "GSO" if hop.gso else "a segment"
    if hop.merged:
        manner = "GSO, merged by GRO, at most"
    if hop.cut is not None:
        manner = f"cut: {hop.cut} ({hop.why})"
    return manner if hop.passes is None else f"{manner}; up to {hop.passes} whole"


def _seen(check: Checked) -> tuple[str, str]:
    if check.seen is None:
        return "-", "not seen"
    sizes = f" ({check.kind}: {check.seen} of {check.hop.largest})"
    text = {"exact": "exact", "within": "within" + sizes, "disagrees": "DISAGREES" + sizes}[check.verdict]
    largest = "" if check.largest_seen == check.seen else f", largest {check.largest_seen}"
    return str(check.seen), text + largest
