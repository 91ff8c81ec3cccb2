"""A program that uses a server through a crib: `conformance_client.py URL` calls every tool that the server has."""

import asyncio
import sys
import tempfile
from pathlib import Path

import toolcrib

SAMPLES = {"number": 2, "integer": 2, "string": "words", "boolean": True}


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = {"mcpServers": {"suite": {"url": url}}, "workspace": {"root": folder}}
        async with toolcrib.open(config, state=Path(folder) / "state") as crib:
            await crib.mcp.ready(20.0)
            belt = crib.belt(toolcrib.OWNER)
            for name, tool in belt.tools.items():
                if name.startswith("suite__"):
                    parameters = tool.parameters.get("properties", {})
                    args = {key: SAMPLES[each["type"]] for key, each in parameters.items()}
                    sys.stdout.write(f"{name}: {(await belt.call(name, args)).plain_text}\n")


asyncio.run(main(sys.argv[1]))
