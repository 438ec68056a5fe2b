"""The command line: parsing, printing, exit codes. Nothing else in lcplan prints or exits."""
