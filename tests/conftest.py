"""Settings of the whole suite: properties are the same every run and never fail for want of speed."""

import os
import signal

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")

# Colours and widths of a developer's own terminal change no tested output.
for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
    os.environ.pop(name, None)

# A suite started in the background by a shell ignores Ctrl-C, and so would the searches that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
