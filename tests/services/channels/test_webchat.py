"""What is said in a session of the gateway from elsewhere: kept in its log, told to who follows it, and said once."""

from pathlib import Path

import pytest

from tests.doors.gateway.world import client_of, gateway_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


async def test_a_session_is_written_to_and_its_clients_are_told(tmp_path: Path) -> None:
    async with gateway_of({}, state=tmp_path) as world, client_of(world) as client:
        await client.get("chat.send", {"sessionKey": "main", "message": "hello", "idempotencyKey": "1"})
        await client.wait_for("chat", runId="1", state="final")
        key = (await client.get("sessions.list"))["sessions"][0]["key"]
        asked = {"channel": "webchat", "to": key, "message": "The cake is done.", "idempotencyKey": "2"}
        told = await client.get("send", asked)
        assert told["status"] == "sent"
        heard = await client.wait_for("chat", runId=told["messageId"], state="final")
        assert heard["message"]["content"] == [{"type": "text", "text": "The cake is done."}]
        assert await client.get("send", asked) == told
        async with client_of(world) as later:
            history = await later.get("chat.history", {"sessionKey": "main"})
            assert str(history).count("The cake is done.") == 1
        code, why = await client.refusal("send", {**asked, "to": "agent:main:nobody", "idempotencyKey": "3"})
        assert "there is no session 'agent:main:nobody'" in why
        assert code
