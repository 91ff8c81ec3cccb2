"""Phrases in outside text that often open an injection: a hint for the record. Nothing is decided by them."""

import re

from toolcrib.define.display import fold

# English only and easily avoided, which is why the fence does not depend on them. Each looks at a character once.
_PHRASES = {
    "ignore previous instructions": r"ignore\s+(?:all\s+)?(?:previous|prior|above)\s+(?:instruction|prompt)",
    "disregard what came before": r"disregard\s+(?:all\s+)?(?:previous|prior|above)",
    "forget your instructions": r"forget\s+(?:everything|all|your)\s+(?:instruction|rule|guideline)",
    "you are now a": r"you\s+are\s+now\s+an?\s",
    "new instructions": r"new\s+instructions?:",
    "system prompt": r"system\s*+(?::\s*+)?(?:prompt|override|command)",
    "exec command=": r"\bexec\b[^\n]{0,400}?command\s*=",
    "elevated=true": r"elevated\s*=\s*true",
    "rm -rf": r"rm\s+_rf",
    "delete all": r"delete\s+all\s+(?:email|file|data)",
    "system tag": r"</?system>",
    "turn of another": r"\][^\S\n]*+\n\s*+\[?(?:system|assistant|user)\]?:",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _PHRASES.items()}


def suspicions(text: str) -> tuple[str, ...]:
    """Return the names of the phrases found in `text`, look-alike letters and invisible characters seen through."""
    looks = fold(text)
    return tuple(name for name, pattern in _PATTERNS.items() if pattern.search(looks))
