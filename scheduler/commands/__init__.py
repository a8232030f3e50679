"""One module for each subcommand of ``muster``."""
