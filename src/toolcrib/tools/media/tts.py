"""tts: a text as speech, in a file of the workspace that the user can be sent."""

from typing import Annotated

from toolcrib import Ctx, Result, tool

_DETAILS = ("provider", "seconds", "note", "removed")


@tool(group="media", effects={"write", "network"}, requires=("setting:media.tts",))
async def tts(
    ctx: Ctx,
    text: Annotated[str, "what to say: words, at most 4,096 characters"],
    channel: Annotated[str | None, "where it will be sent, like telegram; decides the form of the file"] = None,
) -> Result:
    """Turn text into speech. Send the file that MEDIA names with the answer, and do not repeat the text."""
    more = {"channel": channel, "after": ctx.course.taint}
    asked = {"call": ctx.call.key, "text": text, **{name: each for name, each in more.items() if each}}
    told = await ctx.rpc("tts.perform", asked)
    lasts = f"{told['seconds']} seconds, " if "seconds" in told else ""
    lines = [f"MEDIA:{told['path']}", f"{lasts}{told['outputFormat']}, spoken by {told['provider']}"]
    if "note" in told:
        lines.append(told["note"])
    if "removed" in told:
        lines.append(f"{told['removed']} older recordings were removed to make room")
    details = {"audioPath": told["path"], "format": told["outputFormat"], "asVoice": told["voiceCompatible"]}
    return Result.text("\n".join(lines), details=details | {key: told[key] for key in _DETAILS if key in told})
