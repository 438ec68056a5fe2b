"""Study: results of compiles and timings, kept on an Optuna storage."""

from planner.study.store import Store

__all__ = ["Store"]
