"""The command `toolcrib`, and `python -P -m toolcrib`. A plain call through a gateway needs no more than this."""

import sys

if __name__ == "__main__" and "-m" in sys.orig_argv and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: nothing is code because it lies where somebody stands (G27)


def main() -> None:
    """Run the command line; a plain `tools call` asks a gateway that runs before anything heavy is loaded."""
    words = sys.argv[1:]
    try:
        if words[:2] == ["tools", "call"] and words[2:]:
            from toolcrib.doors.cli._remote import call_plainly  # noqa: PLC0415  only here

            if (code := call_plainly(words[2:])) is not None:
                sys.exit(code)
        from toolcrib.doors.cli import main as front  # noqa: PLC0415  it takes longer to load than such a call takes

        front.main()
    except KeyboardInterrupt:  # while they are loaded
        sys.stderr.write("toolcrib: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
