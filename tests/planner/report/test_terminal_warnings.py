"""Warnings of several compiles in the terminal's answer."""

from __future__ import annotations

from types import SimpleNamespace

from planner.report.terminal.search import _trouble


def candidate(label, *warnings, error=None):
    return SimpleNamespace(strategy=SimpleNamespace(label=label), compiled=SimpleNamespace(warnings=warnings, error=error))


def test_a_warning_of_several_compiles_is_printed_once() -> None:
    modelled = SimpleNamespace(strategy=SimpleNamespace(label="d"), compiled=None)
    shown = _trouble([candidate("a", "same", "own"), candidate("b", "same"), candidate("c", error="too large"), modelled])
    assert [text.plain for text in shown] == ["failed: c: too large", "warning: 2 compiles: same", "warning: a: own"]
