"""Settings of the whole suite: properties are the same every run and never fail for want of speed."""

import os

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")

# Colours and widths of a developer's own terminal change no tested output.
for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
    os.environ.pop(name, None)
