"""Verbs: space, rules, search, measure, choose, show."""
