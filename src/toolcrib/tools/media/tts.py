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
    answer = await ctx.rpc("tts.perform", asked)
    lasts = f"{answer['seconds']} seconds, " if "seconds" in answer else ""
    lines = [f"MEDIA:{answer['path']}", f"{lasts}{answer['outputFormat']}, spoken by {answer['provider']}"]
    if "note" in answer:
        lines.append(answer["note"])
    if "removed" in answer:
        lines.append(f"{answer['removed']} older recordings were removed to make room")
    details = {"audioPath": answer["path"], "format": answer["outputFormat"], "asVoice": answer["voiceCompatible"]}
    return Result.text("\n".join(lines), details=details | {key: answer[key] for key in _DETAILS if key in answer})
