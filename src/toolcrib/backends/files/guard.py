"""What may be touched in a workspace: regular files with one name, and for writing no protected names."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from toolcrib.define.errors import ToolError
from toolcrib.define.files import fold_path
from toolcrib.lazy import dataclass, regex

from .stage import STAGE

Access = Literal["rw", "ro", "none"]

# Names whose content is run or obeyed by something else than the task at hand, at any depth: of the shell and the
# session, of git, of editors, and of the assistants that other people let loose on a folder.
_PROTECTED = (
    ".git",  # hooks, config, and the file that says where they are
    ".gitconfig", "**/.config/git",
    ".ssh", ".pam_environment", "**/.config/environment.d",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
    ".kshrc", ".cshrc", ".tcshrc", ".login", "**/.config/fish",
    ".xprofile", ".xsession", ".xsessionrc", ".xinitrc", ".xserverrc",
    "**/.config/autostart", "**/.config/systemd", "**/.local/share/systemd",
    ".vimrc", ".gvimrc", ".exrc", ".vim", "**/.config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".gdbinit",
    ".vscode", ".devcontainer", ".devcontainer.json",
    ".idea", ".zed", "**/.config/zed", "**/.config/Code",
    ".mcp.json", ".claude", ".claude.json", ".gemini", ".cursor", ".codex", ".windsurf", ".continue", ".roo", ".kiro",
    ".opencode", "opencode.json", ".aider.conf.yml",
    # of programs that read the home of who starts them: what is run by its name, and what they load unasked
    "**/.local/bin", "**/.local/lib", "**/.local/share/applications", "**/.local/share/dbus-1",
    ".node_modules", ".node_libraries", ".npmrc", ".yarnrc", ".yarnrc.yml", ".bunfig.toml", ".pydistutils.cfg",
    "**/.config/pip", "**/.config/uv", "**/.config/mise", "**/.config/tmux", "**/.config/vim", "**/.config/emacs",
    ".pip", "**/.cargo/config", "**/.cargo/config.toml", "**/.aws/config", "**/.kube/config", "**/.docker/config.json",
    ".gemrc", ".irbrc", ".pryrc", ".Rprofile", ".lldbinit", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".inputrc",
    ".screenrc", ".husky", ".pdbrc", ".hgrc", "**/.cargo/bin", "**/.docker/cli-plugins",
    "toolcrib.json5", "toolcrib.json", "toolcrib.yaml", "toolcrib.yml", "toolcrib.toml",
    f"{STAGE}*",
)  # fmt: skip

_GLOB = regex(r"[*?\[]")


def list_protected_names(protected: Sequence[str] = ()) -> tuple[str, ...]:
    """Return those of the protected names, and of further globs, that say where they are at the root."""
    plain = (
        glob.removeprefix("**/").removeprefix("./").strip("/").removesuffix("/**") for glob in (*_PROTECTED, *protected)
    )
    return tuple(name for name in plain if name and name != ".git" and not _GLOB.search(name))


@dataclass(frozen=True, slots=True)
class WorkspaceGuard:
    """Says no in one sentence. `own` are the parts of the crib's own files that lie in the workspace."""

    access: Access
    protected: re.Pattern[str]
    linked: re.Pattern[str]

    @classmethod
    def of(
        cls, access: Access, protected: Sequence[str], linked: Sequence[str], own: Sequence[str] = ()
    ) -> "WorkspaceGuard":
        literal = (_GLOB.sub(r"[\g<0>]", f"/{path}") for path in own)
        names = (*_PROTECTED, *protected, *literal)
        return cls(access, _pattern(map(fold_path, names)), _pattern(linked))

    def check_read(self, path: str) -> None:
        """Refuse everything where the workspace is out of reach."""
        if self.access == "none":
            raise ToolError(f"the files of this workspace are out of reach here, {path!r} too", code="denied")

    def check_write(self, path: str, real: str) -> None:
        """Refuse a change where nothing may be changed, and of a name that others obey."""
        self.check_read(path)
        if self.access == "ro":
            raise ToolError(f"the workspace is read-only; {path!r} cannot be changed", code="denied")
        if self.protected.fullmatch(fold_path(real)):
            raise ToolError(f"{path!r} is protected: its content would be obeyed outside of this task", code="denied")

    def check_new_name(self, path: str, name: str) -> None:
        """Refuse a new name that cannot be shown as it is."""
        if any(unicodedata.category(char) == "Cc" for char in name):
            raise ToolError(f"{path!r} holds a control character; choose a name without", code="bad_path")

    def check_regular(self, path: str, found: os.stat_result) -> None:
        """Refuse a folder and what is no file at all."""
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{path!r} is a folder, not a file; ls shows what is in it", code="is_folder")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path!r} is not a regular file (a pipe, a socket or a device)", code="denied")

    def check_single_name(self, path: str, real: str, found: os.stat_result) -> None:
        """Refuse a file with a second name, which may lie outside."""
        if found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and not self.may_be_linked(real):
            raise ToolError(
                f"{path!r} is hard-linked: it has {found.st_nlink} names, and some may lie outside of the workspace; "
                "name its folder in workspace.linked, or work on a copy",
                code="denied",
            )

    def may_be_linked(self, real: str) -> bool:
        """Tell whether files there may have more than one name."""
        return self.linked.fullmatch(real) is not None


def _pattern(globs: Iterable[str]) -> re.Pattern[str]:
    """Return what matches a path that one of the globs names, or that lies in a folder so named.

    As in ignore files: a glob without `/` holds at any depth, one with `/` from the root; `**` spans folders.
    """
    return regex("|".join(f"(?:{_translate(glob)}(?:/.*)?)" for glob in globs) or r"(?!)", re.DOTALL)


def _translate(glob: str) -> str:
    plain = glob.removeprefix("./").rstrip("/")
    anchored = "/" in plain
    plain = plain.removeprefix("/")
    if plain.endswith("/**"):
        plain = f"{plain}/*"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[\[\]|\[[^\]]+\])", plain)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "[[]": r"\["}
    body = "".join(
        special.get(piece) or (f"[{_set(piece[1:-1])}]" if index % 2 else re.escape(piece))
        for index, piece in enumerate(pieces)
    )
    return body if anchored else f"(?:.*/)?{body}"


def _set(inside: str) -> str:
    """Return the inside of a glob's set for a regular expression: `!` negates, ranges stay."""
    escaped = inside.replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    return f"^{escaped[1:]}" if escaped.startswith("!") else escaped.replace("^", r"\^")
