"""Engines: where compiles and timings run. The default is worker processes of this machine."""
