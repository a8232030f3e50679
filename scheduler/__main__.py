"""``python -m scheduler`` is ``muster``."""

from scheduler.cli import main

main()
