"""Words to tasks: a message in plain English, taken apart into what it asks for, by rules that are tried in order."""

from collections.abc import Callable
from dataclasses import replace

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Compare, List, Pointing, Read, Search, Talk, Task, Write

from .changes import change
from .commands import command, shell_line
from .listing import listed
from .reading import about_files, shown
from .search import RECOUNT, searched
from .talk import small_talk, sum_of
from .words import Clause, Token, corrected, tokens_of, words

__all__ = ["asks_again", "starts_over", "understood"]

_LONGEST, _MOST = 20_000, 8  # characters that are read, and tasks of one message
_MOST_SENTENCES, _MOST_WORDS, _MOST_JOINTS = 20, 200, 24  # that are looked at; a quotation is one word

# The first rule that knows what to do with a clause has it.
_RULES: tuple[Callable[[Clause], Task | None], ...] = (
    small_talk, command, change, about_files, searched, shown, listed,
)  # fmt: skip

_VERBS = (
    "list", "show", "read", "print", "open", "display", "view", "find", "search", "grep", "locate", "look", "scan",
    "run", "execute", "write", "create", "make", "save", "append", "add", "replace", "change", "rename", "delete",
    "remove", "count", "summarize", "summarise", "describe", "explain", "compare", "tell", "give", "put", "check",
    "calculate", "compute", "where", "which", "what", "head", "tail", "who", "how", "cat", "edit", "move", "copy",
    "test", "build", "help", "diff", "touch", "store", "update", "start", "git", "thanks", "hello",
)  # fmt: skip
_NOUNS = ("files", "folders", "directories", "directory", "folder")
_BEFORE_NOUNS = words("the all my our these biggest largest newest")
_NO_SLIPS = words(
    "fine code lines files tests tools line file text folder hey good great ok please the this that there these those "
    "then when why while whats wheres whos can could should would also and all any are aside after again bye class "
    "case core common did do does done end error exit for from first function get gets got has have here hi if in is "
    "it its just last let lets like main my me more most never new next no not now of off on one only or our out over "
    "path project python quit same say see set some stop sum sure take thank thx to todo top total try under up us "
    "use used uses user using very was we well went were with within yes yet you your rust shell head load loud real "
    "rent lint list less ls cp mv rm rg ag dir tree type types way won work works world mean"
)
_POLITE = Pattern(
    r"(?:(?:please|kindly|hey|hi|hello|great|cool|nice|perfect|thanks|thank you|ok|okay|so|now|well|also|and|"
    r"just|then|next|first(?= ,| (?:list|show|"
    r"read|find|run|create|write|search|open|look|count|check)\b)|finally|afterwards|after that|second|maybe|"
    r"perhaps|quickly|actually|"
    r"(?:could|can|would|will|might) (?:you|u|we|i)(?: (?:please|kindly|also|maybe|just|possibly))?(?! do\b)|"
    r"may i|i (?:want|need|would like|wish|have|would love)(?: you)?(?: to| for you to)?(?= (?:know|see|find|"
    r"list|read|get|have|look|run|write|create|search|count|open|show|a list)\b)|"
    r"i (?:want|need|would like) (?:you )?to|help me(?: to)?(?= \w)|let us(?! see)|let me (?:see|know|have)|"
    r"do you (?:know|see|think you can)(?! the)|go ahead and|"
    r"try (?:to|and)|you (?:should|must|can|could)|make sure to|be so kind (?:as )?to|would you mind|dear "
    r"\w+|hey \w+ ,|toolcrib|crib|it would be (?:nice|great) (?:if you could|to)|(?:to )?(?:know|find out|"
    r"tell (?:me|us)|show (?:me|us)|see|check|say|list)(?= (?:which|what|where|how|who|if|whether)\b)|(?:if|"
    r"whether)(?= )|"
    r"use (?:the )?(?:ls|grep|find|read|exec|write|edit)(?: tool)? to|using (?:the )?(?:ls|grep|find|read|"
    r"exec|write|edit)(?: tool)? ,?)(?!\w)(?: ?[,:!])? ?|[,:;!.] ?|- )"
)
_TAIL = Pattern(
    r"(?: ?(?:,|please|pls|thanks|thank you|thx|for me|now|right now|would you|will you|could you|can you|if "
    r"you can|if possible|"
    r"real quick|quickly|ok|okay|again|as well|too|to me|and that is it|[?!.:;])$)"
)
_CHATTER = Pattern(
    r"(?:i|i'm|we|we're|my|our|this|that|it|it's|there|the|hey|ok|so|you|your|be|report|answer|return|"
    r"respond|reply|explain why|use|as)\b"
)
_PLACED = Pattern(
    r"(?P<place>(?:in|inside|under|within|from) (?!which|what)(?:(?:the|all|my|our) )*(?:[PQG]\d+|[\w-]+)(?: "
    r"(?:folder|directory|files?|code))?) ?,? ?"
    r"(?P<rest>(?:find|search|list|show|grep|count|look|locate|how many|which|what|who|where|are|is|tell)\b.*)"
)
_PAIR = Pattern(
    r"(?P<head>.*\b(?:list|ls|in|inside|of|under)(?: the)?)(?: (?:[PQ]\d+|[a-z_][\w-]*)(?: ,)?)+ and "
    r"(?:[PQ]\d+|[a-z_][\w-]*)"
)
_THENS = words("then afterwards finally")
_JOINTS = _THENS | words(", and but or plus also")
_AGAIN = Pattern(
    r"(?:(?:please|ok|okay|now|and) )*(?:again|once more|one more time|"
    r"(?:re)?try(?: (?:it|that|this))?(?: again| once more)?|"
    r"(?:do|run|say) (?:it|that|this) (?:again|once more)|redo(?: (?:it|that))?|repeat(?: (?:it|that))?|rerun|go on|"
    r"continue|carry on|proceed|resume|go ahead)(?: ,)?(?: please)?"
)
_OVER = Pattern(r"(?:no|stop|wait|cancel|instead|forget|never ?mind|actually|rather|abort|halt)\b|.*\binstead$")


def understood(text: str) -> tuple[Task, ...]:
    """Return what a message asks for, in order; what was not understood is among it, with its words."""
    plain = text[:_LONGEST].encode("utf-8", "replace").decode()
    if done := sum_of(plain) or shell_line(plain.strip()):
        return (done,)
    tasks: list[Task] = []
    for sentence in _sentences(plain):
        tasks += _tasks(sentence)
    tasks = _joined(tasks)
    known = [task for task in tasks if not _is_unknown(task)]
    if known:
        return tuple(each for task in tasks if (each := _beside(task)))[:_MOST] or tuple(known[:1])
    return tuple(tasks[:1]) or (Talk(topic="unknown", text=plain.strip()),)


def _beside(task: Task) -> Task | None:
    """Return a task as it is when others stand beside it: greetings need no answer then, and chatter none at all."""
    if not isinstance(task, Talk):
        return task
    if task.topic == "unknown":
        return None if _CHATTER.match(task.text.lower()) else replace(task, topic="missed")
    return None if task.topic in ("hello", "thanks", "nothing", "bye") else task


def asks_again(text: str) -> bool:
    """Tell whether a message asks for nothing but what was asked before."""
    return bool(_AGAIN.fullmatch(" ".join(token.mask for token in tokens_of(text[:_LONGEST])).rstrip(" .!?,")))


def starts_over(text: str) -> bool:
    """Tell whether a message takes back what was asked before it."""
    return bool(_OVER.match(" ".join(token.mask for token in tokens_of(text[:_LONGEST]))))


def _sentences(text: str) -> list[Clause]:
    """Return the sentences; a full stop within a name ends none."""
    made: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.mask in (".", "?", "!", ";"):
            made.append([])
        else:
            made[-1].append(token)
    return [Clause(text, tuple(tokens)) for tokens in made if tokens][:_MOST_SENTENCES]


def _tasks(clause: Clause, known: dict[int, list[Task]] | None = None) -> list[Task]:
    """Return what a sentence asks for, taken apart where both parts make sense alone.

    `known` is what the rests of the sentence come to, by their length, so that each is looked at once.
    """
    known = {} if known is None else known
    tokens = clause.tokens
    if len(tokens) > _MOST_WORDS:
        return [Talk(topic="unknown", text=clause.raw)]
    joints = [at for at in range(1, len(tokens)) if tokens[at - 1].mask in _JOINTS or tokens[at].mask in _THENS]
    for at in joints[:_MOST_JOINTS]:
        other = Clause(clause.whole, tokens[at:])
        if not _opens(other):
            continue
        first = _task(Clause(clause.whole, _without_joints(tokens[:at])))
        if first is None:
            continue
        if len(other.tokens) not in known:
            known[len(other.tokens)] = _tasks(other, known)
        rest = known[len(other.tokens)]
        if not _is_unknown(rest[0]):
            return [first, *rest]
    task = _task(clause)
    if isinstance(task, List) and (several := _each(clause)):
        return several
    return [task or Talk(topic="unknown", text=clause.raw)]


def _without_joints(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    while tokens and tokens[-1].mask in _JOINTS:
        tokens = tokens[:-1]
    return tokens


def _each(clause: Clause) -> list[Task]:
    """Return `list src and tests` as two tasks; nothing when that is not what a clause says."""
    found = _PAIR.fullmatch(clause.masked.rstrip(" ?!."))
    if not found:
        return []
    head, both = clause.within(*found.span("head")).tokens, clause.within(found.end("head") + 1, len(clause.masked) + 1)
    made = [_task(Clause(clause.whole, (*head, token))) for token in both.tokens if token.mask not in (",", "and")]
    return [task for task in made if isinstance(task, List) and task.path != "."] if all(made) else []


def _opens(clause: Clause) -> bool:
    """Tell whether a clause begins like a request: with a verb, spelled right or nearly so."""
    plain = _plain(clause)
    word = plain.tokens[0].mask.partition(" ")[0] if plain else ""
    return word in _VERBS or word in ("ls", "tldr", "do", "is", "are", "does", "if", "its", "sum", "git", "rm")


def _task(clause: Clause) -> Task | None:
    plain = _plain(clause)
    if not plain:
        return None
    if done := sum_of(plain.raw) or small_talk(clause):
        return done
    for rule in _RULES:
        if (task := rule(plain)) is not None:
            return task
    return None


def _plain(clause: Clause) -> Clause:
    """Return the clause without politeness around it, its first word spelled right."""
    while (found := _POLITE.match(clause.masked)) and found.end() < len(clause.masked):
        clause = clause.within(found.end(), len(clause.masked) + 1)
    while (found := _TAIL.search(clause.masked)) and (shorter := clause.within(0, found.start())):
        if len(shorter.tokens) == len(clause.tokens):
            break
        clause = shorter
    if found := _PLACED.fullmatch(clause.masked):
        rest, place = clause.within(*found.span("rest")), clause.within(*found.span("place"))
        clause = Clause(clause.whole, (*rest.tokens, *place.tokens))
    if clause and clause.tokens[0].mask not in _NO_SLIPS:
        first = clause.tokens[0]
        word = first.mask if first.mask in _VERBS else corrected(first.mask, _VERBS)
        clause = Clause(clause.whole, (replace(first, mask=word), *_spelled(clause.tokens[1:])))
    return clause


def _spelled(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the words with `the fils` as `the files`; without an article it may be a name."""
    made = list[Token]()
    for token in tokens:
        is_noun = made and made[-1].mask in _BEFORE_NOUNS and token.mask not in _NO_SLIPS
        made.append(replace(token, mask=corrected(token.mask, _NOUNS, cutoff=0.85)) if is_noun else token)
    return tuple(made)


def _joined(tasks: list[Task]) -> list[Task]:
    """Return the tasks with `read X and tell its headings` as one: only the headings are wanted."""
    made: list[Task] = []
    for task in tasks:
        if made and (both := _both(made[-1], task)):
            made[-1] = both
            continue
        made.append(task)
    return made


def _both(before: Task, task: Task) -> Task | None:
    """Return one task for two, when the second only says more about the first."""
    match before, task:
        case Write(path=path, content=""), Write(path=Pointing()):
            return replace(task, path=path, append=False)
        case Search(), Search() if task == RECOUNT:
            return replace(before, counted=True)
        case Read(view="text", targets=targets), Read() | Compare() if _points_back(task):
            return replace(task, targets=targets)
        case Read(view="text", targets=(str() as path, *_)), Search() if _points_back(task):
            return replace(task, path=path)
    return None


def _points_back(task: Task) -> bool:
    match task:
        case Read(targets=targets, view=view):
            return view != "text" and (not targets or isinstance(targets[0], Pointing))
        case Compare(targets=targets):
            return isinstance(targets[0], Pointing)
        case Search(path=path, way=way):
            return isinstance(path, Pointing) or (way in ("definitions", "imports") and path == ".")
    return False


def _is_unknown(task: Task) -> bool:
    return isinstance(task, Talk) and task.topic == "unknown"
