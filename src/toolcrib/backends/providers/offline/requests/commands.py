"""Requests that need a command: what to run, the tests, git."""

import re
import shlex

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Pointing, Refuse, Run, Task

from .places import is_file, peeled
from .words import Clause, number_of

__all__ = ["command", "refusal", "shell_line"]

_DO = r"(?:re-?run|run|execute|exec|start|launch|invoke|perform|kick off|fire up|do)"
_COMMAND = (
    r"(?:the |this |a )?(?:following )?(?:(?:shell |bash |terminal )?(?:command|program|script|line)s?)?(?: :|,)? ?"
)
_QUOTED = Pattern(
    rf"{_DO} {_COMMAND}(?P<command>Q\d+)(?: (?:in|inside|from) (?:the )?(?P<path>[PQ]\d+|\w+)(?: (?:folder|"
    rf"directory|dir))?)?(?: .{{0,40}})?"
)
_PLAIN = Pattern(r"(?:re-?run|run|execute|exec|launch|\$|!|>) (?:the command )?(?P<command>.+)")
_ARTICLE = Pattern(r"(?:the|a|an|my|our|your|this|that|it|them|all|some|every|each)\b")

_GIT = (
    "add am apply bisect blame branch cat-file checkout cherry-pick clean clone commit config describe diff fetch grep "
    "init log ls-files ls-tree merge mv pull push rebase reflog remote reset restore rev-list rev-parse revert rm show "
    "shortlog stash status submodule switch tag whatchanged worktree --version"
)
_PROGRAMS = Pattern(
    rf"git (?:{'|'.join(_GIT.split())})\b.*|(?:npm|npx|pip3?|cargo|pytest|docker|python3?|node|uv|ruff|mypy|"
    rf"yarn|pnpm|tox|nox|"
    r"curl|wget|echo|poetry|hatch|pre-commit|gcc|java|gradle|mvn|deno|bun)(?: .+)?|(?:pwd|whoami|uname|"
    r"hostname|uptime|df|du|ps|env|id)(?: -.*)?"
    r"|go (?:test|build|run|vet|mod|fmt)\b.*|make(?: [a-z][\w-]*)?|P\d+ -.*|mkdir (?:-p )?\S+|chmod .+"
    r"|(?:sort|uniq|stat|file|sha256sum|md5sum|nl|tac)(?: -\S+)* P\d+"
)

_JOBS: tuple[tuple[str, str], ...] = (
    ("test", (
        rf"(?:{_DO}|try|check|see|verify|show|tell)\b.*\b(?:tests?|test ?suite|unit ?tests?|specs|"
        rf"testsuite)\b(?!\.)(?! (?:folder|directory|files?)\b).*"
    )),
    ("test", (
        r"(?:unit ?)?tests?(?: (?:it|this|everything|the (?:code|project|app|repo|package)|my .*|our .*|this "
        r".*))?"
    )),
    ("test", (
        r"(?:do|does|did|are|is|will|have)\b.*\b(?:tests?|specs|suite|build)\b.*\b(?:pass\w*|work\w*|succeed\w*|"
        r"green|ok|fail\w*|red|broken)\b.*"
    )),
    ("test", r".*\b(?:which|what|any|how many)\b.*\btests?\b.*\b(?:fail\w*|pass\w*|broken|red|green)\b.*"),
    ("test", r"(?:(?:the|all|my|our|any) )*(?:tests?|test suite) (?:pass|work|succeed|run|fail|are|is)\w*\b.*"),
    ("lint", rf"(?:{_DO} (?:the )?)?(?:lint|linter|linters|linting|type ?check\w*)(?: (?:it|this|the|my|our)\b.*)?"),
    ("build", rf"(?:{_DO} (?:the |a )?)?(?:build|compile)(?: (?:it|this|the|my|our|project|everything)\b.*)?"),
)  # fmt: skip
_JOB_PATTERNS = tuple((job, Pattern(pattern)) for job, pattern in _JOBS)

_FEW = 10
_COMMITS = Pattern(
    r".*\b(?:last|latest|recent|newest|previous|past|most recent)\b(?: (?P<count>N\d+)| few| couple of| "
    r"several)?(?: git)? (?P<what>commits?|commit messages?)\b.*"
    r"|.*\b(?:commit (?:history|log|messages)|git (?:history|log)|commits|version history|change ?log of "
    r"git)\b.*|.*\bwhat was (?:last )?committed\b.*"
    r"|.*\b(?P<more>N\d+) (?:latest|last|recent|newest)? ?(?:git )?commits\b.*"
)
_HISTORY = Pattern(
    r".*\b(?:history of|who (?:last )?(?:changed|modified|edited|touched|wrote|committed)|when was|last "
    r"change (?:of|to|in))\b.*?(?P<path>P\d+).*"
)
_BRANCHES = Pattern(r".*\b(?P<all>branches)\b.*|.*\b(?:which|what|current|git|tell|show|on)\b.*\bbranch\b.*|branch")
_DIFF = Pattern(
    r"(?:show|see|print|display|give|get|view|git|what is|tell)?\b.*\b(?:the |git |my |current )(?:diff|"
    r"differences|patch)\b.*|diff(?: (?P<path>P\d+))?"
)
_CHANGES = Pattern(
    r".*\bfiles? (?:did|have|has) (?:i|we|you) (?:change|modif|edit|touch)\w*\b.*|"
    r".*\bwhat(?: has| have| is| did| are)?(?: i| we| you| been| just)* (?:changed?|modified|new|"
    r"different)\b(?: .*\b(?:git|repo\w*|commit|here|project|folder|code|files|tree|working|last|since|"
    r"me)\b.*)?"
    r"|.*\b(?:uncommitted|unstaged|staged|untracked|pending|local) (?:changes?|files?|work|edits?|"
    r"modifications?)\b.*|.*\b(?:git|repo|repository|working (?:tree|copy)) (?:status|changes?|state)\b.*"
    r"|.*\b(?:status|state) of (?:the |my |this )?(?:git|repo|repository|working tree|checkout|work)\b.*|"
    r".*\bfiles? (?:that )?(?:are |were |was |have |has |i |been |got )*(?:changed|modified|touched|edited|"
    r"uncommitted|staged)\b.*"
    r"|.*\b(?:changed|modified|edited) files\b.*|(?:are|is|were|do|have|any)\b.*\b(?:any )?(?:changes|"
    r"uncommitted)\b.*|(?:(?:show|the|git|current|me|see) )*(?:status|changes)|.*\bchanges? (?:in|to|of|"
    r"since) (?:git|the repo\w*|this "
    r"repo\w*|the last commit)\b.*"
    r"|is (?:the |my )?(?:git|working|repo)\b.*\b(?:clean|dirty)\b.*"
)
_VERSION = Pattern(
    r".*\b(?:version of|which|what)\b.*?\b(?P<name>python|python3|node|git|npm|cargo|rustc?|java|ruby|gcc|"
    r"pip|docker|make|uv)\b(?: version)?(?: .{0,40})?|(?P<alone>python|node|git|npm|rust|ruby|pip) version"
)
_WHERE = Pattern(
    r"where am i|(?:what is|show|print|tell me|which is) (?:the |my )?(?:current|working|present)(?: "
    r"working)? (?:directory|folder|dir|path)|print working directory|(?:which|what) (?:folder|directory) "
    r"(?:is this|am i in|are (?:you|we) in)"
)
_FOLDER = Pattern(
    r"(?:create|make|add|new) (?:a |an |the )?(?:new )?(?:empty )?(?:folder|directory|dir|subfolder) "
    r"(?:called |named )?(?P<path>[PQ]\d+|[\w-]+)|mkdir (?:-p )?(?P<other>[PQ]\d+|[\w-]+)"
)
_OWN = Pattern(r"\b(?:did|have) (?:i|we|you)\b|\bsince\b")
_LATELY = Pattern(r"\b(?:recent(?:ly)?|newest|latest|today|yesterday|lately|this (?:week|month))\b")
# A line for a shell, with marks that only a shell understands; a semicolon stands in plain words, too.
_STARTS = (
    r"(?:cd|ls|cat|echo|grep|rg|find|mkdir|touch|cp|mv|rm|sort|uniq|head|tail|wc|cut|sed|awk|git|python3?|pip3?|npm|node|"
    r"cargo|make|curl|ps|du|df|printf|seq|sleep|test|env|export)\b"
)
_SHELL = Pattern(rf"(?:(?:run|execute|exec) )?(?P<line>{_STARTS}[^\n]*(?:(?:&&|\|\||\||>) ?[^\n]+|; ?{_STARTS}[^\n]*))")
_OUTPUT = Pattern(
    r"(?:what (?:does|do|would|is)|show|tell)(?: me)?(?: the (?:output|result) of)? (?P<command>Q\d+)"
    r"(?: (?:say|print|output|give|show|return|report)s?)?"
)
_IT = Pattern(
    r"(?:re-?run|run|execute|start|launch) (?:it|that|this|them|(?:the|that|this) (?:file|script|program|code))"
)
_NAMES = {"python": "python3", "rust": "rustc"}


def shell_line(text: str) -> Run | None:
    """Return the command that a whole message is: behind `!`, or written for a shell."""
    if "\n" in text:
        return None
    if text.startswith("!") and text[1:].strip(" !?."):
        return Run(command=text[1:].strip())
    found = _SHELL.fullmatch(text)
    return Run(command=found["line"]) if found else None


def command(clause: Clause) -> Task | None:
    """Return the command that a clause asks to run."""
    text = clause.masked
    if found := _QUOTED.fullmatch(text):
        return Run(command=clause.group(found, "command").strip(), path=clause.group(found, "path"))
    if _IT.fullmatch(text):
        return Run(file=Pointing())
    if (found := _PLAIN.fullmatch(text)) and _PROGRAMS.fullmatch(found["command"]):
        return Run(command=clause.group(found, "command"))
    if (found := _OUTPUT.fullmatch(text)) and not re.search(r"\.\w+$|/$", clause.group(found, "command")):
        return Run(command=clause.group(found, "command"))
    if (job := _job(clause)) is not None:
        return job
    if found := _FOLDER.fullmatch(text):
        path = clause.group(found, "path") or clause.group(found, "other")
        return Run(command=f"mkdir -p {shlex.quote(path)}")
    if found := _PLAIN.fullmatch(text):
        return _plain(clause.within(*found.span("command")))
    if _PROGRAMS.fullmatch(text):
        return Run(command=clause.raw)
    return _git(clause) or _facts(clause)


def _job(clause: Clause) -> Run | None:
    inner, place = peeled(clause)
    text = inner.masked.rstrip(" ?!.")
    for job, pattern in _JOB_PATTERNS:
        if pattern.fullmatch(text):
            path = place.path if isinstance(place.path, str) and place.path != "." else ""
            named = [token.text for token in inner.marked("PQ")]
            if named and not is_file(named[0]):
                return None
            return Run(
                job="test" if job == "test" else "lint" if job == "lint" else "build", path=path or "".join(named[:1])
            )
    return None


def _plain(clause: Clause) -> Task | None:
    """Return what was written behind `run` as a command, if it looks like one."""
    if _ARTICLE.match(clause.masked):
        return None
    text = clause.raw.strip()
    if len(clause.tokens) == 1 and clause.marked("P") and not text.startswith(("./", "/", "~")):
        is_test = re.search(r"(?:^|/)test_[^/]*$|_test\.\w+$", text)
        return Run(job="test", path=text) if is_test else Run(file=text)
    return Run(command=text)


def _git(clause: Clause) -> Task | None:
    text = clause.masked.rstrip(" ?!.")
    paths = [token.text for token in clause.marked("P") if is_file(token.text)]
    rest = f" -- {shlex.quote(paths[0])}" if paths else ""
    if len(paths) > 1:
        return None
    if found := _HISTORY.fullmatch(text):
        return Run(command=f"git log -n {_FEW // 2} --format='%h %ad %an: %s' --date=short{rest}")
    if (found := _COMMITS.fullmatch(text)) and not _OWN.search(text):
        numbers = [number_of(token.text) for token in clause.marked("N")]
        count = numbers[0] if numbers else 1 if found["what"] in ("commit", "commit message") else _FEW
        return Run(command=f"git log -n {max(1, min(count, 100))} --oneline{rest}")
    if found := _BRANCHES.fullmatch(text):
        return Run(command="git branch --all" if found["all"] else "git branch --show-current")
    if _DIFF.fullmatch(text):
        return Run(command=f"git diff{rest}")
    if _CHANGES.fullmatch(text) and not _LATELY.search(text):
        return Run(command=f"git status --short --branch{rest}")
    return None


def _facts(clause: Clause) -> Task | None:
    text = clause.masked.rstrip(" ?!.")
    if _WHERE.fullmatch(text):
        return Run(command="pwd")
    if (found := _VERSION.fullmatch(text)) and "version" in text and not clause.marked("P"):
        name = found["name"] or found["alone"]
        return Run(command=f"{_NAMES.get(name, name)} --version")
    return None


def refusal(path: str) -> Refuse:
    """Return that nothing is deleted here, with the command that would."""
    folder = "-r " if "." not in path.rpartition("/")[2] else ""
    return Refuse(what="delete", command=f"rm {folder}{shlex.quote(path)}")
