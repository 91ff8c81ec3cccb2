"""What the offline model does first with what people say: a table of phrasings and the calls they lead to."""

from typing import Any

import pytest
from tests.backends.providers.offline.talking import reply, said, text_of

from toolcrib.define.history import History
from toolcrib.tools import SHELF

pytestmark = pytest.mark.anyio

TOOLS = tuple(tool for tool in SHELF if tool.has_body)
DEFINES = object()  # a search for what defines a symbol


def ls(path: str = ".") -> tuple[str, dict[str, Any]]:
    return "ls", {"path": path}


def find(pattern: str, path: str = ".") -> tuple[str, dict[str, Any]]:
    return "find", {"pattern": pattern} if path == "." else {"pattern": pattern, "path": path}


def grep(pattern: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return "grep", {"pattern": pattern, **args}


def read(path: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path, **args}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "oldText": old, "newText": new, "replaceAll": True}


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "exec", {"command": command}


LISTING = [
    ("list the files in src", ls("src")),
    ("List files", ls()),
    ("ls", ls()),
    ("ls -la src", ls("src")),
    ("ls src/", ls("src")),
    ("dir", ls()),
    ("lsit the files", ls()),
    ("what's in src?", ls("src")),
    ("what is in this folder", ls()),
    ("what's here?", ls()),
    ("show me the files in the tests directory", ls("tests")),
    ("Could you please show me what's inside the docs folder?", ls("docs")),
    ("give me a list of all the files here", ls()),
    ("I'd like to see the files in `src/toolcrib`", ls("src/toolcrib")),
    ("Hey, I'm new here. What's in this repo?", ls()),
    ("what can I find in tests/", ls("tests")),
    ("enumerate the contents of config/", ls("config")),
    ("gimme the files", ls()),
    ("name the folders in this project", ls()),
    ("how many files are there?", ls()),
    ("Great, now list the files.", ls()),
    ("great now list the files", ls()),
    ("list the files in tools", ls("tools")),
    ("what does the src directory contain?", ls("src")),
    ("list src and tests", ls("src")),
    ("how many folders are in src", ls("src")),
    ("which directories are in docs", ls("docs")),
    ("list all python files", find("*.py")),
    ("list only *.py in src recursively", find("*.py", "src")),
    ("List everything under src recursively.", find("*", "src")),
    ("tree", find("*")),
    ("show the project structure", find("*")),
    ("how many python files are in src?", find("*.py", "src")),
    ("list .py files in tests", find("*.py", "tests")),
    ("list files ending in .md", find("*.md")),
    ("files with extension toml", find("*.toml")),
    ("I want to know which python files exist under lib", find("*.py", "lib")),
    ("get me all the yaml files", find("*.{yaml,yml}")),
]
FINDING = [
    ("find *.py", find("*.py")),
    ("find files named config.toml", find("config.toml")),
    ("where is main.py", find("main.py")),
    ("where's README", find("*README*")),
    ("find all markdown files under docs", find("*.md", "docs")),
    ("Is there a Makefile?", find("*Makefile*")),
    ("is there a file called setup.py", find("setup.py")),
    ("locate config.yaml", find("config.yaml")),
    ("find everything that matches test_*.py", find("test_*.py")),
    ("where can I find conftest.py?", find("conftest.py")),
    ("which folder contains app.py", find("app.py")),
    ("look for files called *.toml", find("*.toml")),
    ("find all files with app in their name", find("*app*")),
    ("do you know where names.py is?", find("names.py")),
]
SEARCHING = [
    ("find TODO in *.py", grep("TODO", glob="*.py")),
    ("fnid TODO", grep("TODO")),
    ("grep for 'import os' in src", grep("import os", path="src")),
    ('search for "foo bar"', grep("foo bar")),
    ("serach for foo in src", grep("foo", path="src")),
    ("search the code for timeout", grep("timeout")),
    ("search src for foo", grep("foo", path="src")),
    ("search the whole repo for deprecated", grep("deprecated")),
    ("search all python files for TODO", grep("TODO", glob="*.py")),
    ("look for the word timeout in src", grep("timeout", path="src")),
    ('grep "def main" src/app.py', grep("def main", path="src/app.py")),
    ("grep -rn TODO src", grep("TODO", path="src")),
    ("grep -i error logs", grep("error", path="logs", ignoreCase=True)),
    ("in src, find TODO", grep("TODO", path="src")),
    ("in *.py files search for print", grep("print", glob="*.py")),
    ('find the string "hello world" in all python files', grep("hello world", glob="*.py")),
    ("find TODO in src/*.py", grep("TODO", path="src", glob="*.py")),
    ("find a(b) in src", grep(r"a\(b\)", path="src")),
    ("find 'x.*y' in a.txt", grep(r"x\.\*y", path="a.txt")),
    ('search for the regex "a.*b" in src', grep("a.*b", path="src")),
    ("find foo ignoring case", grep("foo", ignoreCase=True)),
    ("find files containing hello", grep("hello")),
    ("which lines of a.txt contain two", grep("two", path="a.txt")),
    ("does README.md mention docker?", grep("docker", path="README.md")),
    ("any mention of kubernetes in the docs?", grep("kubernetes", path="docs")),
    ("who uses parse_args", grep(r"\bparse_args\b")),
    ("where do we use openai", grep(r"\bopenai\b")),
    ("which files have TODO in them", grep("TODO")),
    ("who calls helper()", grep(r"\bhelper\b")),
    ("where is Belt used", grep(r"\bBelt\b")),
    ("find usages of Foo", grep(r"\bFoo\b")),
    ("find out who uses the Belt class", grep(r"\bBelt\b")),
    ("how many times does TODO appear in src", grep(r"\bTODO\b", path="src", limit=10_000)),
    ("how many TODOs are there", grep("TODO", limit=10_000)),
    ("search for foo in src and count the matches", grep("foo", path="src", limit=10_000)),
    ("are there any TODOs in tests?", grep("TODO", path="tests")),
    ("show every TODO and FIXME", grep("TODO|FIXME")),
    ("where is the function parse_args defined", DEFINES),
    ("where is symbol Belt defined in this repository", DEFINES),
    ("Where is class Foo?", DEFINES),
    ("where's the Foo class?", DEFINES),
    ("find the definition of foo_bar", DEFINES),
    ("which file defines Belt", DEFINES),
    ("what file is Foo in?", DEFINES),
    ("where does the function compute_total live?", DEFINES),
    ("In which file is the constant MAX_SIZE declared?", DEFINES),
    ("where is `Foo.bar` implemented?", DEFINES),
    ("Where's MAX_RETRIES set?", DEFINES),
    ("I need to find where parse_config is implemented", DEFINES),
]
READING = [
    ("read README.md", read("README.md")),
    ("raed a.txt", read("a.txt")),
    ("print a.txt", read("a.txt")),
    ("what does a.txt say?", read("a.txt")),
    ("what's written in notes.txt?", read("notes.txt")),
    ("can you read a.txt for me?", read("a.txt")),
    ("take a look at src/main.rs", read("src/main.rs")),
    ("a.txt", read("a.txt")),
    ("read README", find("{readme,readme.*}")),
    ("open the pyproject file", find("{pyproject,pyproject.*}")),
    ("read all the txt files", find("*.txt")),
    ("show me the first 10 lines of setup.py", read("setup.py", limit=10)),
    ("first line of a.txt", read("a.txt", limit=1)),
    ("head -n 5 a.txt", read("a.txt", limit=5)),
    ("head -3 a.txt", read("a.txt", limit=3)),
    ("first three lines of a.txt", read("a.txt", limit=3)),
    ("lines 10-20 of a.py", read("a.py", offset=10, limit=11)),
    ("show lines 3 to 7 in a.py", read("a.py", offset=3, limit=5)),
    ("show me line 7 of a.txt", read("a.txt", offset=7, limit=1)),
    ("src/app.py:5-8", read("src/app.py", offset=5, limit=4)),
    ("last 5 lines of log.txt", read("log.txt", limit=0)),
    ("tail a.txt", read("a.txt", limit=0)),
    ("summarise README.md", read("README.md")),
    ("what is README.md about?", read("README.md")),
    ("what does this project do?", ls()),
    ("give me an overview of this codebase", ls()),
    ("what are the headings in README.md?", read("README.md")),
    ("give me the table of contents of docs/guide.md", read("docs/guide.md")),
    ("what does pyproject.toml depend on", read("pyproject.toml")),
    ("what are the dependencies of this project", ls()),
    ("count the lines of a.txt", read("a.txt", limit=0)),
    ("how many words does a.txt have", read("a.txt")),
    ("compare a.txt and b.txt", read("a.txt")),
    ("are a.txt and b.txt identical", read("a.txt")),
]
CHANGING = [
    ("create notes.txt with hello", write("notes.txt", "hello\n")),
    ('create a file called notes.txt with the text "hello world"', write("notes.txt", "hello world\n")),
    ('write "x = 1" to a.py', write("a.py", "x = 1\n")),
    ("make a file notes.txt that says hello there", write("notes.txt", "hello there\n")),
    ("put hello in a file named h.txt", write("h.txt", "hello\n")),
    ("save 'x' as x.txt", write("x.txt", "x\n")),
    ("please create the file docs/new.md containing # Title", write("docs/new.md", "# Title\n")),
    ("make me a file called x.py with `print(1)` in it", write("x.py", "print(1)\n")),
    ("write to out.txt: done", write("out.txt", "done\n")),
    ("create a.py with:\n```python\nx = 1\ny = 2\n```", write("a.py", "x = 1\ny = 2\n")),
    ("create notes/a.md saying meeting at 10, bring laptop", write("notes/a.md", "meeting at 10, bring laptop\n")),
    ("write this to a.md:\nfirst line\nsecond line", write("a.md", "first line\nsecond line\n")),
    ("append 'bye' to notes.txt", read("notes.txt")),
    ("add a line saying hello to notes.txt", read("notes.txt")),
    ("replace foo by bar in a.txt", edit("a.txt", "foo", "bar")),
    ("change \"a b\" to 'c d' in src/x.py", edit("src/x.py", "a b", "c d")),
    ("in a.txt, replace foo with bar", edit("a.txt", "foo", "bar")),
    ("replace 'two' in a.txt with 'deux'", edit("a.txt", "two", "deux")),
    ("change openai to anthropic in a.txt", edit("a.txt", "openai", "anthropic")),
    ("create file x.txt and write hello in it", write("x.txt", "hello\n")),
    ("rename Foo to Baz in src/app.py", edit("src/app.py", "Foo", "Baz")),
    ("remove the line \"two\" from a.txt", edit("a.txt", "two", "")),
]  # fmt: skip
NEWCOMERS = [
    ("how many lines has a.txt", read("a.txt", limit=0)),
    ("lst the fils", ls()),
    ("what does helper do", DEFINES),
    ("what's the version", ls()),
    ("are there any tests?", find("*test*")),
    ("rename a.txt to b.txt", run("mv -nv a.txt b.txt")),
    ("copy a.txt to c.txt", run("cp -nv a.txt c.txt")),
    ('read "a b.txt"', read("a b.txt")),
    ("sort a.txt", run("sort a.txt")),
    ("mkdir foo && cd foo", run("mkdir foo && cd foo")),
    ("run seq 1 5; sleep 1; echo done", run("seq 1 5; sleep 1; echo done")),
    ("!ls -la", run("ls -la")),
]
RUNNING = [
    ("run the tests", ls()),
    ("do the tests pass?", ls()),
    ("check if the tests pass", ls()),
    ("please run the test suite", ls()),
    ("run `git status`", run("git status")),
    ("run git status", run("git status")),
    ("can you run `npm install`?", run("npm install")),
    ("execute ls -la", run("ls -la")),
    ("run ./check", run("./check")),
    ("run main.py", run("python3 main.py")),
    ("git log", run("git log")),
    ("what changed in git", run("git status --short --branch")),
    ("which files did I change?", run("git status --short --branch")),
    ("any uncommitted changes?", run("git status --short --branch")),
    ("show the last 3 commits", run("git log -n 3 --oneline")),
    ("give me the 5 latest commits", run("git log -n 5 --oneline")),
    ("what was the last commit about?", run("git log -n 1 --oneline")),
    ("what branch am I on", run("git branch --show-current")),
    ("show git diff", run("git diff")),
    ("what time is it", run("date")),
    ("what's today's date", run("date")),
    ("make a new folder called build", run("mkdir -p build")),
]
PHRASINGS = [*LISTING, *FINDING, *SEARCHING, *READING, *CHANGING, *NEWCOMERS, *RUNNING]

SPOKEN = [
    ("what is 2+2", "2+2 = 4"),
    ("12 * (3 + 4)", "= 84"),
    ("how much is 15% of 80", "= 12"),
    ("what's 7 times 6?", "= 42"),
    ("what is 1/0", "divides by zero"),
    ("which tools do you have", "`grep`"),
    ("list your tools", "`exec`"),
    ("thanks", "You are welcome"),
    ("stop", "Stopped"),
    ("how do I connect a real model?", "ANTHROPIC_API_KEY"),
    ("how to connect openai", "OPENAI_API_KEY"),
    ("delete notes.txt", "rm notes.txt"),
    ("rm -rf src", "rm -r src"),
    ("please remove old.txt", "rm old.txt"),
    ("remove line 2 from a.txt", "sed -i 2d a.txt"),
    ("remove lines 2-3 from a.txt", "sed -i 2,3d a.txt"),
    ("undo that", "`/undo`"),
    ("how do I quit", "Ctrl-D"),
    ("install requests", "run `pip install requests`"),
    ("commit my changes", "run `git commit"),
    ("push", "run `git push`"),
    ("and the second one?", "name it, please"),
]
UNKNOWN = [
    "write me a poem about cats",
    "what's the weather",
    "translate README.md to German",
    "fix the bug in app.py",
    "why is the sky blue?",
    "what is the meaning of life?",
    "is this code any good?",
    "was ist in diesem Ordner?",
    "这个文件夹里有什么？",
    "",
    "???",
]


def test_the_table_is_long_enough_to_be_a_rule() -> None:
    assert len(PHRASINGS) >= 150
    assert len({text for text, _ in PHRASINGS}) == len(PHRASINGS)


@pytest.mark.parametrize(("text", "wanted"), PHRASINGS, ids=[text for text, _ in PHRASINGS])
async def test_a_request_leads_to_its_first_call(text: str, wanted: Any) -> None:
    message = await reply(History([said(text)]), TOOLS)
    first = message.calls[0]
    if wanted is DEFINES:
        assert first.name == "grep"
        assert "def|class|fn" in first.args["pattern"]
    else:
        assert (first.name, dict(first.args)) == wanted


@pytest.mark.parametrize(("text", "words"), SPOKEN, ids=[text for text, _ in SPOKEN])
async def test_what_needs_no_tool_is_said_at_once(text: str, words: str) -> None:
    message = await reply(History([said(text)]), TOOLS)
    assert not message.calls
    assert words in text_of(message)


@pytest.mark.parametrize("text", [*UNKNOWN, "help", "what can you do", "hello", "hi there"])
async def test_before_it_gives_examples_it_looks_at_the_folder(text: str) -> None:
    message = await reply(History([said(text)]), TOOLS)
    assert [(call.name, call.args) for call in message.calls] == [("ls", {"path": "."})]


@pytest.mark.parametrize("text", UNKNOWN)
async def test_what_it_does_not_understand_it_says(text: str) -> None:
    words = " ".join(text_of(await reply(History([said(text)]), ())).split())
    assert "not a language model" in words
    assert all(
        key in words for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "--model ollama:qwen3")
    )
