"""A program that uses a server through a crib: `conformance_client.py URL` calls every tool that the server has.

Where the scenario is about signing in, it is also the person who does so, by following the page wherever it leads, and
the operator who wrote what the scenario hands out into the configuration.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import toolcrib

SAMPLES = {"number": 2, "integer": 2, "string": "words", "boolean": True}
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
MAX_LOGINS = 2


def auth_for(url: str) -> Any:
    """Return what stands in the configuration."""
    if SCENARIO == "auth/basic-cimd":
        return {"clientId": "https://conformance-test.local/client-metadata.json"}
    if "client_id" not in CONTEXT:
        return "oauth"
    base, _, path = url.rpartition("/")
    with urlopen(f"{base}/.well-known/oauth-protected-resource/{path}") as answer:
        (issuer,) = json.load(answer)["authorization_servers"]
    auth = {"clientId": CONTEXT["client_id"], "issuer": issuer}
    if "private_key_pem" in CONTEXT:
        return auth | {"grant": "client_credentials", "privateKey": CONTEXT["private_key_pem"]}
    grant = "client_credentials" if "client-credentials" in SCENARIO else "authorization_code"
    return auth | {"grant": grant, "clientSecret": CONTEXT["client_secret"]}


def browse(url: str) -> None:
    threading.Thread(target=lambda: urlopen(url).close(), daemon=True).start()


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = {"url": url} | ({"auth": auth_for(url)} if SCENARIO.startswith("auth/") else {})
        config = {"mcpServers": {"suite": server}, "workspace": {"root": folder}}
        for _ in range(MAX_LOGINS):
            async with toolcrib.open(config, state=Path(folder) / "state") as crib:
                await crib.mcp.ready(20.0)
                belt = crib.belt(toolcrib.OWNER)
                said = crib.mcp.servers["suite"].why
                for name, tool in belt.tools.items():
                    if name.startswith("suite__"):
                        parameters = tool.parameters.get("properties", {})
                        args = {key: SAMPLES[each["type"]] for key, each in parameters.items()}
                        said += (await belt.call(name, args)).plain_text
                sys.stdout.write(f"{said}\n")
                if "toolcrib mcp login suite" not in said:
                    return
                try:
                    sys.stdout.write(f"signed in: {await crib.mcp_tools.sign_in('suite', browse)}\n")
                except toolcrib.ToolError as error:
                    sys.stdout.write(f"not signed in: {error}\n")


asyncio.run(main(sys.argv[1]))
