"""Marks of evidence: one character after a figure that shows how lcplan came to know it."""

from __future__ import annotations

from lcplan.evidence.measurement import Rung

MARKS: dict[Rung, str] = {
    "modelled": "~",
    "compiled:host": "h",
    "compiled:target": "c",
    "timed:slice": "s",
    "timed:full": "t",
}

LEGEND = "~ modelled   c compiled for the target   s timed slice   t timed whole"
