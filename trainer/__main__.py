"""`python -m trainer` is `muster-train`."""

from trainer.cli import main

if __name__ == "__main__":
    main()
