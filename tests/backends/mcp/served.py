"""A server as people write them: `served.py official|fastmcp stdio|http [PORT]`."""

import asyncio
import base64
import importlib
import os
import sys
from pathlib import Path
from typing import Any

MAKERS = {"official": ("mcp.server.mcpserver", "MCPServer"), "fastmcp": ("fastmcp", "FastMCP")}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def made(maker: str) -> Any:
    """Return the server."""
    module, name = MAKERS[maker]
    home = importlib.import_module(module)
    server = getattr(home, name)("served")
    context = home.Context

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def say_hello(name: str = "you") -> str:
        """Greet somebody."""
        return f"hello {name}"

    def told() -> str:
        """Tell what it was given."""
        return " ".join(f"{key}={value}" for key, value in sorted(os.environ.items()))

    def fail() -> str:
        """Fail."""
        raise RuntimeError("the well is dry")

    def picture() -> Any:
        """Show a picture."""
        image = importlib.import_module(module if maker == "official" else "fastmcp.utilities.types").Image
        return image(data=base64.b64decode(PNG), format="png")

    async def slow(ctx: Any, steps: int, mark: str = "") -> str:
        """Take a while, and tell how far it is."""
        try:
            for step in range(steps):
                await ctx.report_progress(step + 1, steps, f"step {step + 1}")
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            Path(mark).write_text("cancelled", encoding="utf-8")
            raise
        return "done"

    slow.__annotations__["ctx"] = context

    def one() -> str:
        return "the words of note one"

    def greet(name: str) -> str:
        """Ask for a greeting."""
        return f"Please greet {name}."

    for body in (add, told, fail, picture, slow):
        server.tool()(body)
    server.tool(name="sayHello")(say_hello)
    server.resource("note://one", name="one", description="The first note", mime_type="text/plain")(one)
    server.prompt()(greet)
    return server


def main() -> None:
    maker, how, *rest = sys.argv[1:]
    server = made(maker)
    if how == "stdio":
        server.run("stdio", **({"show_banner": False} if maker == "fastmcp" else {}))
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(rest[0]))


if __name__ == "__main__":
    main()
