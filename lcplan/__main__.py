"""``python -m lcplan`` is the command line; it lives in ``planner.cli``, which this package knows by name only."""

from __future__ import annotations

from importlib import import_module

if __name__ == "__main__":
    import_module("planner.cli.main").main()
