"""Outputs of ``lcplan inspect``: a part of a step, and the profile of a step."""
