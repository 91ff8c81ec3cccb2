"""Requests that need no tool, or hardly: greetings, help, sums."""

import ast
import operator
import re
from collections.abc import Callable, Mapping

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Run, Talk, Task, Topic

from .words import Clause

__all__ = ["small_talk", "sum_of"]

_TOPICS: tuple[tuple[Topic, str], ...] = (
    ("stop", r"(?:stop|cancel|abort|halt|quit|never ?mind|forget it|enough)(?: (?:it|that|this|now|here|everything))*"),
    ("hello", (
        r"(?:hello|hi|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|yo|hullo)(?: (?:there|"
        r"everyone|you|again|toolcrib|crib))*"
    )),
    ("hello", r"how (?:are|is) (?:you|it going|things)(?: .*)?"),
    ("thanks", (
        r"(?:many |ok |great |cool |perfect |nice |good )*(?:thanks|thank you|thx|ty|cheers|great|perfect|nice|"
        r"cool|awesome|good job|well done|excellent|lovely)"
        r"(?: ,| (?:thanks|thank you|a lot|a million|so much|very much|again|you|toolcrib|work|job|indeed|for .{0,40}|"
        r"that .{0,30}))*"
    )),
    ("undo", (
        r"(?:undo|revert|roll ?back|take back|unwrite)(?: (?:it|that|this|the|my|last|latest|change|changes|edit|write|"
        r"one|file|please|what you did|again))*"
    )),
    ("quit", (
        r"(?:how|where) (?:do|can|could|would|should) (?:i|one|you|we) (?:quit|exit|leave|stop|end|close)\b.*|how to "
        r"(?:quit|exit|leave|close)\b.*"
    )),
    ("bye", r"(?:bye|goodbye|good ?bye|see you|good night|exit)(?: (?:bye|later|soon|now|then|tomorrow|toolcrib))*"),
    ("nothing", r"(?:yes|no|ok|okay|sure|yep|nope|y|n|maybe|fine|right|nothing)"),
    ("connect", (
        r"(?!where|who|find|which|search|grep|show|list|is\b|does|count|what).*\b(?:connect|configure|set up|"
        r"setup|use|switch|add|plug in|change|choose|select|get|"
        r"set)\b.*\b(?:(?:real|other|another|better|different|language|proper|ai|local|cloud) (?:language "
        r")?models?|llms?|the model|models|api ?keys?|openai|anthropic|gemini|claude|gpt\S*|ollama|chatgpt)\b.*"
    )),
    ("tools", (
        r".*\b(?:what|which|list|show|tell|name|enumerate|your|all)\b.*\btools\b(?! in| under| folder| "
        r"directory)(?: .{0,30})?"
    )),
    ("tools", r"tools|your tools|tool list"),
    ("help", (
        r"help(?: me)?|usage|commands|examples?|\?|.*\bwhat\b.*\b(?:can|could|do|should) (?:you|i|one|we) (?:do|"
        r"ask|say|type|understand|know|help|support|offer)\b.*|what are you (?:good for|capable of|able to)(?: "
        r".*)?|how (?:do|can|does|should|would) (?:you|i|one|this|it) (?:work|use|help|start|begin|ask)\b.*|"
        r".*\b(?:your|some) (?:abilities|capabilities|skills|features)\b.*|how can you help\b.*|(?:give|show) "
        r"(?:me )?(?:some |an? )?(?:help|examples?)|what (?:is|are) (?:possible|the options|my options)|(?:where|"
        r"how) (?:do|should) i (?:start|begin)"
    )),
    ("who", (
        r"(?:who|what) (?:are|r) (?:you|u)\b.*|who is (?:this|there|speaking|answering)|(?:which|what) "
        r"(?:language )?(?:model|llm|ai) (?:are you|is (?:this|it|that)|do (?:you|i) (?:use|have)|am i .*|"
        r"answers?)\b.*|(?:are|is) (?:you|this|it) (?:an? |really |chat|gpt|claude|gemini|real)\b.*|are you "
        r".*\b(?:ai|llm|human|bot|robot|model|chatgpt|gpt\S*|claude|gemini)|what is (?:your name|toolcrib)|your "
        r"name|who (?:made|wrote|built) you|(?:tell me about|introduce) yourself"
    )),
)  # fmt: skip
_PATTERNS = tuple((topic, Pattern(pattern)) for topic, pattern in _TOPICS)
_CLOCK = Pattern(
    r"(?:what|which|tell|show|give|do|get|current|time|date|today|print)?.*?\b(?:(?:time|date|day|year|"
    r"month)(?: of (?:the )?(?:day|week))?"
    r" (?:is it|is today|it is|do we have|now)|current (?:time|date|day)|(?:is|me|tell|know) the (?:current "
    r")?(?:time|date|day)"
    r"|date (?:is )?today|today's (?:date|time)|today is date|time and date|date and time)\b.{0,20}|(?:time|date|today)"
)

# What wants a command with words of one's own: the command that would do it.
_NEEDS = (
    (r"(?:git )?commit(?: (?:it|this|that|all|my|the|these|our|changes?|work|everything))*", 'git commit -am "..."'),
    (r"(?:git )?push(?: (?:it|this|that|my|the|our|changes?|work|everything|commits?))*", "git push"),
    (r"(?:git )?pull(?: (?:it|the|latest|newest|changes?))*", "git pull"),
    (
        r"(?:pip )?install (?:the )?(?:package |library |module )?(?P<name>[\w.-]+)(?: (?:package|library))?",
        "pip install",
    ),
)
_NEEDS_PATTERNS = tuple((Pattern(pattern), command) for pattern, command in _NEEDS)

_FOLDER = Pattern(r"\b(?:in|under|inside|of|from|within) (?:the )?tools\b")  # a folder may be called so

_LEAD = Pattern(
    r"(?:(?:so|and|please|hey|ok)[, ]+)*(?:(?:what(?:'s| is)|how much (?:is|are|do(?:es)?)|calculate|compute|"
    r"evaluate|solve|work out|"
    r"tell me|give me|add up|sum|can you (?:calculate|compute|add)|please (?:calculate|compute))\s*(?:the "
    r"(?:sum|result|value) of\s+)?:?)?\s*",
    re.IGNORECASE,
)
_SPELLED = (
    (r"^add\s+([\d.]+)\s+(?:and|to)\s+", r"\1+"), (r"\b(?:the )?square root of\s+([\d.]+)", r"\1**0.5"),
    (r"(\d)\s*(?:percent|%)\s+of\s+", r"\1/100*"), (r"\bplus\b", "+"), (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b", "*"), (r"\b(?:divided by|over)\b", "/"), (r"\bto the power of\b|\^", "**"),
    (r"\b(?:modulo|mod)\b", "%"), (r"[x×](?=\s*[\d(])", "*"), (r"÷", "/"), (r"(?<=\d),(?=\d{3}\b)", ""),
)  # fmt: skip
_SUM = Pattern(r"[\d\s.+\-*/%()]{3,200}")
_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}  # fmt: skip
_LARGEST = 10.0**15


def small_talk(clause: Clause) -> Task | None:
    """Return what is only said, when a clause asks for no more."""
    text = clause.masked.rstrip(" .!?,")
    if clause.marked("PQG") or _FOLDER.search(text):
        return None
    if _CLOCK.fullmatch(text):
        return Run(command="date")
    for needs, command in _NEEDS_PATTERNS:
        if found := needs.fullmatch(text):
            name = found.groupdict().get("name")
            return Talk(topic="needs", text=f"{command} {name}" if name else command)
    for topic, pattern in _PATTERNS:
        if pattern.fullmatch(text):
            return Talk(topic=topic)
    return None


def sum_of(text: str) -> Talk | None:
    """Return the sum that a text asks for, done; None when it asks for none."""
    plain = text.strip().rstrip("?!.= ")
    plain = plain[_lead(plain) :]
    for pattern, sign in _SPELLED:
        plain = re.sub(pattern, sign, plain, flags=re.IGNORECASE)
    plain = plain.strip()
    if not _SUM.fullmatch(plain) or not re.search(r"[\d)]\s*[+\-*/%]", plain) or not re.search(r"\d$|\)$", plain):
        return None
    try:
        value = _value(ast.parse(plain, mode="eval").body)
    except ZeroDivisionError:
        return Talk(topic="sum", text=f"{plain} cannot be worked out: it divides by zero")
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return None
    shown = int(value) if value == int(value) else round(value, 10)
    return Talk(topic="sum", text=f"{' '.join(plain.split())} = {shown}")


def _lead(text: str) -> int:
    found = _LEAD.match(text)
    return found.end() if found else 0


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if abs(value) <= _LARGEST:
            return value
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, other = _value(left), _value(right)
            if isinstance(op, ast.Pow) and (abs(other) > 64 or abs(one) > 10**6):
                raise ValueError("too large a power")
            made = _OPERATORS[type(op)](one, other)
            if isinstance(made, complex) or abs(made) > _LARGEST**20:
                raise ValueError("not a plain number")
            return made
    raise ValueError("no sum of plain numbers")
