"""toolcrib accept: a yes to a file or folder of a workspace, by the hash of its content."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Unpack

import click

from toolcrib.app.sources import open_accepted
from toolcrib.app.stores import open_origins, user_folder
from toolcrib.backends.plugins import MANIFEST
from toolcrib.backends.stores.accepted import Accepted, AcceptedContents, hash_file, read_content
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError, ToolError

from ._format import print_json
from ._options import JsonOptions, json_options

_EXAMPLES = """\b
Examples:
  toolcrib accept ./gradlew
  toolcrib accept plugins/shop tools/server.py
  toolcrib accept --list
  toolcrib accept --forget ./gradlew
"""
_HASH_CHARS = 12  # of a hash that are shown


@click.command("accept", epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--list", "is_list", is_flag=True, help="List what was accepted, and whether it is there as it was.")
@click.option("--forget", "is_forget", is_flag=True, help="Take the yes to each PATH back.")
@json_options
def command(paths: tuple[Path, ...], is_list: bool, is_forget: bool, **options: Unpack[JsonOptions]) -> None:
    """Accept files and folders of a workspace as they are now: look at them first.

    Programs that tools.exec.allow names by their path, plugins and scripts of MCP servers that lie in a workspace are
    used only as they were accepted. What was written after words from outside counts as your own from then on, and
    with a folder all that lies in it. What changes has to be accepted anew.
    """
    if is_list == bool(paths):
        raise CribError("name what to accept, or write --list alone; `toolcrib accept --help` shows how")
    store = open_accepted(os.environ, None)
    try:
        if is_list:
            rows = [(each, _compare(each)) for each in store.list_all()]
        elif is_forget:
            rows = [(each, "forgotten") for path in paths for each in store.forget(path)]
            open_origins(user_folder(os.environ)).forget([each for path in paths for each in _list_digests(path)])
        else:
            rows = [(each, "accepted") for each in _accept(store, paths)]
    except ToolError as error:
        raise CribError(escape_controls(str(error))) from error
    if options["as_json"]:
        entries = [{"path": each.file, "digest": each.digest, "at": each.at, "state": state} for each, state in rows]
        print_json({"forgotten" if is_forget else "accepted": entries})
    for each, state in rows if not options["as_json"] else ():
        click.echo(f"{each.digest[:_HASH_CHARS]}  {state.ljust(9)}  {escape_controls(each.file)}")


def _accept(store: AcceptedContents, paths: Iterable[Path]) -> list[Accepted]:
    """Accept all of these, or none when one cannot be read."""
    read = {os.path.realpath(path): read_content(path) for path in paths}
    taken: list[Accepted] = []
    for path, (digest, files) in read.items():
        file = os.fsencode(path).decode(errors="backslashreplace")
        taken.append(Accepted(digest=digest, name=os.path.basename(file), file=file, at=time.time()))  # noqa: PTH119
        # a plugin is loaded from a copy, so that nothing changes between the last look and the load
        store.accept(taken[-1], files if MANIFEST in files else None)
        contents = [(len(data), hash_file(data)) for data in files.values()]
        open_origins(user_folder(os.environ)).accept(file, contents)
    return taken


def _list_digests(path: Path) -> list[str]:
    with contextlib.suppress(ToolError):  # it may be gone
        return list(map(hash_file, read_content(path)[1].values()))
    return []


def _compare(accepted: Accepted) -> str:
    """Tell whether what was accepted is there as it was."""
    try:
        return "accepted" if read_content(Path(accepted.file))[0] == accepted.digest else "changed"
    except ToolError:
        return "gone"
