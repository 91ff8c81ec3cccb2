"""toolcrib skills, and toolcrib plugins: which there are, one more from an archive, and one less."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.app.skills import MARKER, read_skill
from toolcrib.app.sources import folders_for, list_enabled_plugins, open_accepted, own_folder, search_plugins
from toolcrib.backends.plugins import MANIFEST, read_manifest
from toolcrib.backends.stores.accepted import Accepted, read_content
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.names import suggest

from ._format import flatten, print_json, print_table, truncate
from ._options import CommandGroup, ConfigOptions, JsonOptions, json_options, load_from_options, show_examples

_Rows = tuple[list[dict[str, Any]], list[str]]
_COLUMNS, _WIDE = ("name", "source", "description"), 80


def _find_skills(options: ConfigOptions) -> _Rows:
    loaded = load_from_options(options, fills=False)
    found, problems = folders_for(loaded, os.environ, None, own=True).find_skills(loaded)
    rows = [
        {
            "name": each.name, "description": each.description, "source": each.source, "path": str(each.folder),
            "digest": each.digest, "allowedTools": each.tools, "files": sorted(each.files), "text": each.text,
        }
        for each in found.values()
    ]  # fmt: skip
    return rows, [each.sentence for each in problems]


def _find_plugins(options: ConfigOptions) -> _Rows:
    loaded = load_from_options(options, fills=False)
    found, broken = search_plugins(loaded, folders_for(loaded, os.environ, None, own=True))
    enabled = list_enabled_plugins(loaded.config)
    rows = [
        {
            "name": id, "description": each.manifest.description if each.manifest else "", "path": each.where,
            "source": "folder" if each.is_folder else "installed", "enabled": id in enabled,
            "tools": [tool.name for tool in each.manifest.tools or ()] if each.manifest else None,
        }
        for id, each in found.items()
    ]  # fmt: skip
    return rows, list(map(str, broken))


def _make_group(kind: str, marker: str, name_of: Callable[[Path], str], find: Callable[..., _Rows]) -> CommandGroup:
    """Return the commands for one kind of folder; `marker` is the file that makes a folder one of the kind."""
    group = CommandGroup(f"{kind}s")

    @group.command("list", epilog=show_examples(f"{kind}s list --json"))
    @json_options
    def list_(**options: Unpack[JsonOptions]) -> None:
        rows, problems = find(options)
        if options["as_json"]:
            shown = [{key: row[key] for key in row if key != "text"} for row in rows]
            print_json({f"{kind}s": shown, "problems": problems})
            return
        for sentence in problems:
            click.echo(f"toolcrib: {escape_controls(sentence)}", err=True)
        print_table(_COLUMNS, [[truncate(flatten(row[column]), _WIDE) for column in _COLUMNS] for row in rows])

    @group.command("add", epilog=show_examples(f"{kind}s add FILE.tar.gz"))
    @click.argument("file", type=click.Path(path_type=Path))
    @json_options
    def add(file: Path, as_json: bool, **_: Unpack[ConfigOptions]) -> None:
        from toolcrib.backends.archives import install  # noqa: PLC0415  readers of archives, which nothing else needs

        def choose(whole: Path) -> tuple[Path, str]:
            inner = [*whole.iterdir()]
            part = inner[0] if len(inner) == 1 and inner[0].is_dir() else whole
            if not (part / marker).is_file():
                raise ToolError(f"{file} holds no {kind}: there is no {marker} at its top, or in its one folder")
            try:
                return part, name_of(part)
            except CribError as error:
                raise ToolError(f"{file}: {str(error).replace(f'{part}/', '')}") from error

        target = install(file, own_folder(f"{kind}s"), choose)
        try:
            digest, files = read_content(target)
            yes = Accepted(digest=digest, name=target.name, file=os.path.realpath(target), at=time.time())
            open_accepted(os.environ, None).accept(yes, files if marker == MANIFEST else None)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        then = f"; to turn it on, name {target.name!r} in plugins.allow" if marker == MANIFEST else ""
        _say(as_json, {"name": target.name, "path": str(target), "digest": digest}, f"added: {target}{then}")

    @group.command("rm", epilog=show_examples(f"{kind}s rm NAME"))
    @click.argument("name")
    @json_options
    def rm(name: str, as_json: bool, **_: Unpack[ConfigOptions]) -> None:
        from toolcrib.backends.archives import uninstall  # noqa: PLC0415

        folder = own_folder(f"{kind}s")
        added = sorted(path.parent.name for path in folder.glob(f"[!.]*/{marker}"))
        if name not in added:
            hint = suggest(name, added, f"`toolcrib {kind}s list` shows which there are")
            raise CribError(f"there is no {kind} {name[:64]!r} in {folder}{hint}")
        with suppress(ToolError):  # it may not have been accepted
            open_accepted(os.environ, None).forget(folder / name)
        uninstall(folder, name)
        _say(as_json, {"name": name, "path": str(folder / name)}, f"removed: {folder / name}")

    list_.help = f"List the {kind}s that are there; stderr says what was left out, and why."
    add.help = f"Add a {kind} from a zip or tar file (gz, bz2, xz); it is accepted as it is, so look at it first."
    rm.help = f"Remove a {kind} that you added."
    return group


def _say(as_json: bool, value: dict[str, Any], sentence: str) -> None:
    print_json(value) if as_json else click.echo(escape_controls(sentence))


command = _make_group("skill", MARKER, lambda folder: read_skill(folder).name, _find_skills)
command.help = "List, show, add and remove skills: folders with a SKILL.md that a model reads when it needs one."
plugins = _make_group("plugin", MANIFEST, lambda folder: read_manifest(folder / MANIFEST).id, _find_plugins)
plugins.help = "List, add and remove plugins; the configuration turns one on by its name, in plugins.allow."


@command.declare("show", "skills show pdf-forms", options=json_options)
@click.argument("name")
def show(name: str, **options: Unpack[JsonOptions]) -> None:
    """Show one skill as a model reads it."""
    rows = {row["name"]: row for row in _find_skills(options)[0]}
    if name not in rows:
        hint = suggest(name, rows, "`toolcrib skills list` shows which there are")
        raise CribError(f"there is no skill {name[:64]!r}{hint}")
    _say(options["as_json"], rows[name], "{path}\n{description}\n\n{text}".format(**rows[name]))
