"""The belt inside other people's programs: their client or framework asks, `invoke` answers.

    from toolcrib.doors.bridges import openai as bridge      # or anthropic, or genai

    reply = await client.chat.completions.create(model=..., messages=messages, tools=bridge.tools(belt))
    messages += [reply.choices[0].message, *await bridge.answers(belt, reply)]

    from toolcrib.doors.bridges.pydantic_ai import CribToolset

    agent = Agent(..., toolsets=[CribToolset(belt)])

Each bridge is an extra of its own name (`pip install 'toolcrib[openai]'`); a foreign package is imported by its bridge
and by nothing else.
"""
