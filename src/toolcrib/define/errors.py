"""Every error toolcrib raises on purpose. Whatever else escapes is a bug.

    CribError
    ├── ToolError            a tool could not do what was asked; the model reads the sentence
    │   └── ArgumentError    the arguments of a call do not fit the tool's parameters
    ├── DeclarationError     a tool, an agent or a plugin was declared in a way that cannot work
    ├── ConfigError          the configuration cannot be used; says where and what to do
    └── PluginError          a plugin is missing, broken, or raised while it was loaded

The message is one sentence that a person (or a model) can act on.
"""

from toolcrib.lazy import dataclass


class CribError(Exception):
    """The root: catch it to catch everything toolcrib raises on purpose."""


class ToolError(CribError):
    """A tool could not do what was asked.

    `code` is for programs (`not_found`, `denied`, `timeout` ...), the message is for the model. `source` says where
    words in it came from when they came from outside: then the model reads it between marks, like any such text.
    `for_model` takes the message's place where a model reads it: whose rule it was is for those who can change it.
    """

    def __init__(self, message: str, *, code: str = "failed", source: str | None = None, for_model: str = "") -> None:
        super().__init__(message)
        self.code, self.source, self.for_model = code, source, for_model


class ArgumentError(ToolError):
    """The arguments of a call do not fit the tool's parameters."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="bad_arguments")


def make_unasked_error(reason: str, tool: str) -> ToolError:
    """Return the refusal of a call that needs a person's consent, where there is no one to ask."""
    refusal = f"Refused: this call of {tool} needs a person's yes, and nobody is there to ask."
    message = f"{reason}, and there is nobody to ask"
    return ToolError(message, code="not_approved", for_model=f"{refusal} Do not try again; tell the user.")


class DeclarationError(CribError):
    """A tool, an agent or a plugin was declared in a way that cannot work."""


class PluginError(CribError):
    """A plugin is missing, broken, or raised while it was loaded."""


@dataclass(frozen=True, slots=True)
class ConfigLocation:
    """Where in the configuration something stands: `path` is the key path, `line` counts from 1."""

    file: str = ""
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(part for part in (where, self.path) if part)


class ConfigError(CribError):
    """The configuration cannot be used: `file:line: key.path: what is wrong; what to do`."""

    def __init__(self, message: str, place: ConfigLocation | None = None) -> None:
        self.place = place or ConfigLocation()
        self.message = message
        super().__init__(": ".join(part for part in (str(self.place), message) if part))


class NoAnswerError(CribError):
    """The gateway that should answer does not run."""


class RefusedByGatewayError(CribError):
    """It is there, and does not let us in: trying again would not help. `request` is what waits to be approved."""

    def __init__(self, message: str, request: str = "") -> None:
        super().__init__(message)
        self.request = request
