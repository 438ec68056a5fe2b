"""A gate for continuous integration: does a step still fit, and has its executable grown since a stored baseline?"""
