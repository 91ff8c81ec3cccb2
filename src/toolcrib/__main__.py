"""`python -m toolcrib`: the command line."""

from toolcrib.doors.cli.main import main

if __name__ == "__main__":
    main()
