"""Rollouts in the planner: their space, their rules, and how one layout is filled in."""
