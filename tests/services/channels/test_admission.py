"""Who is let in: look-alikes, names that are the owner's id, and ids that begin like names."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.define.caller import Sender
from toolcrib.define.channel import HeardMessage
from toolcrib.define.errors import ToolError
from toolcrib.policy.resolve import is_owner

pytestmark = pytest.mark.anyio

OWNERS = ["id:7", "id:@ann:home.test", "e164:+15550100", "id:k8", "id:~ann!~ann@host.test"]
STRANGERS = {
    "a name that is the id": Sender(id="66", name="7"),
    "a name that is the whole key": Sender(id="66", name="id:7"),
    "a username that is the id": Sender(id="66", username="7"),
    "a username that is the Matrix id": Sender(id="66", username="@ann:home.test"),
    "a username with the sign before it": Sender(id="66", username="@7"),
    "the key as an id": Sender(id="id:7"),
    "full-width digits": Sender(id="７"),
    "Arabic digits": Sender(id="٧"),
    "a mathematical digit": Sender(id="𝟕"),
    "a superscript digit": Sender(id="⁷"),
    "a blank before it": Sender(id=" 7"),
    "a blank behind it": Sender(id="7 "),
    "a line behind it": Sender(id="7\n"),
    "a zero before it": Sender(id="07"),
    "a sign before it": Sender(id="+7"),
    "nothing visible behind it": Sender(id="7\u200b"),
    "a mark of direction before it": Sender(id="\u202e7"),
    "a zero byte behind it": Sender(id="7\0"),
    "the Matrix id without its sign": Sender(id="ann:home.test"),
    "the Matrix id with two": Sender(id="@@ann:home.test"),
    "a Cyrillic letter in the Matrix id": Sender(id="@аnn:home.test"),
    "the Matrix id at another home": Sender(id="@ann:home.test.evil.test"),
    "the Matrix id with a port": Sender(id="@ann:home.test:8448"),
    "a capital that is another letter": Sender(id="\u212a8"),
    "the number as an id": Sender(id="+15550100"),
    "the number without its sign": Sender(id="66", e164="15550100"),
    "the id as a number": Sender(id="66", e164="7"),
    "a nick with another host": Sender(id="~ann!~ann@host.test.evil.test"),
    "a nick alone": Sender(id="~ann"),
    "an asterisk": Sender(id="*"),
    "no id at all": Sender(name="7", username="7"),
    "an empty id": Sender(id="", name="7"),
}


def crib(**own: Any) -> toolcrib.Crib:
    return toolcrib.open({"channels": {"telegram": {"owners": OWNERS, **own}}})


@pytest.mark.parametrize("policy", ["allowlist", "pairing", "disabled"])
@pytest.mark.parametrize("name", STRANGERS)
async def test_nobody_is_let_in_who_only_looks_like_somebody(name: str, policy: str) -> None:
    admission = crib(dmPolicy=policy, allowFrom=["id:7", "id:@ann:home.test", "@ann", "bob"]).channels.admission
    message = HeardMessage(id="1", chat="c", sender=STRANGERS[name], text="hi")
    assert (await admission.judge("telegram", message)).caller is None
    assert not await admission.takes_invitation("telegram", replace(message, kind="invitation"))


@pytest.mark.parametrize("name", STRANGERS)
async def test_nobody_is_the_owner_who_only_looks_like_it_where_all_may_write(name: str) -> None:
    here = crib(groups={"*": {}}, dmPolicy="open")
    direct = HeardMessage(id="1", chat="c", sender=STRANGERS[name], is_for_us=True)
    for message in (direct, replace(direct, kind="group", group="-1")):
        guest = await here.channels.admission.judge("telegram", message)
        if guest.caller is not None:
            assert not is_owner(here.loaded.policy, guest.caller)
            assert here.belt(guest.caller).verdicts["gateway"].layer == "owner"
            assert guest.caller.session != "agent:main:main"


@pytest.mark.parametrize(
    "sender",
    [
        Sender(id="7", name="Mallory"),
        Sender(id="@ann:home.test"),
        Sender(id="@Ann:Home.test"),
        Sender(id="9", e164="+15550100"),
        Sender(id="K8"),
        Sender(id="~ann!~ann@host.test"),
    ],
)
async def test_an_owner_is_let_in_whatever_it_is_called(sender: Sender) -> None:
    here = crib(dmPolicy="disabled")
    message = HeardMessage(id="1", chat="c", sender=sender, text="hi")
    guest = await here.channels.admission.judge("telegram", message)
    assert guest.caller is not None
    assert is_owner(here.loaded.policy, guest.caller)
    assert guest.caller.session == "agent:main:main"
    assert await here.channels.admission.takes_invitation("telegram", message)


async def test_a_message_still_being_judged_takes_back_nobody_s_yes(tmp_path: Path) -> None:
    admission = toolcrib.open({"channels": {"telegram": {}}}, state=tmp_path).channels.admission
    message = HeardMessage(id="1", chat="c", sender=Sender(id="66"), text="hi")
    code = (await admission.judge("telegram", message)).code
    heard = [asyncio.create_task(admission.judge("telegram", message)) for _ in range(20)]
    await asyncio.sleep(0)
    await admission.admit(code)
    await asyncio.gather(*heard)
    assert (await admission.judge("telegram", message)).caller is not None


async def test_a_code_that_no_code_is_like_is_refused() -> None:
    with pytest.raises(ToolError, match="nobody waits with the code 'ÄÖÜ'"):
        await crib(dmPolicy="pairing").channels.admission.admit("ÄÖÜ")
