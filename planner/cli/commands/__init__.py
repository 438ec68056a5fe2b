"""One module per command; the command line imports a module when its command is called."""
