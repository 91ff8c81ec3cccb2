"""`people`: who is who, and which of all ids that lists hold are clear."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, model_validator

from toolcrib.define import session
from toolcrib.define.channel import ID_RULES
from toolcrib.define.device import DEVICE_CHANNEL
from toolcrib.define.names import fold_name
from toolcrib.policy.identities import IDENTITIES, Identity, is_role, rules_of, sender_key, spell_link
from toolcrib.policy.settings import AnswererSettings, Section

from .channels import ChannelSettings
from .values import Bool, Str, Words, check_sender, quote_value

_LATER = ("role", "tools", "away")  # keys that narrow, which nothing here would hold to


def _identity(text: str) -> str:
    if sender_key(check_sender(text)).kind not in IDENTITIES:
        raise ValueError(f"{quote_value(text)} is not what a person is known by; write telegram:id:7 or id:7")
    return text


class PersonSettings(Section):
    """One of `people`: the identities that are one person."""

    is_: tuple[Annotated[Str, AfterValidator(_identity)], ...] = Field(alias="is", min_length=1)
    owner: Bool = False
    time_zone: Words | None = Field(default=None, alias="timeZone")

    @model_validator(mode="before")
    @classmethod
    def _is_of_this_version(cls, value: Any) -> Any:
        for key in _LATER if isinstance(value, Mapping) else ():
            if key in value:
                raise ValueError(f"{key}: nothing holds to it in this version; take it out until one does")
        return value


def list_unused(people: Mapping[str, PersonSettings]) -> Iterator[str]:
    """Yield the keys that are set and that nothing reads yet."""
    for name, person in people.items():
        yield from (
            f"people.{name}.{key}" for key, value in (("owner", person.owner), ("timeZone", person.time_zone)) if value
        )


def index_people(people: Mapping[str, PersonSettings], bare: str) -> dict[Identity, str]:
    """Return whose each identity is; ValueError for one that two have."""
    found: dict[Identity, str] = {}
    for name, person in people.items():
        for each in (each for text in person.is_ for each in sender_key(text).list_identities(ID_RULES, bare)):
            if found.setdefault(each, name) != name:
                raise ValueError(f"people: {quote_value(str(each))} is both {found[each]} and {name}; take one out")
    return found


def list_connecting(channels: Mapping[str, ChannelSettings]) -> list[str]:
    """Return the channels that connect to a service, where people write to us."""
    named = ((session.to_channel(name) or name, each) for name, each in channels.items())
    return [name for name, each in named if each.enabled and each.connects and name not in ("hook", DEVICE_CHANNEL)]


def find_bare_channel(channels: Mapping[str, ChannelSettings]) -> str:
    """Return the one channel that connects, of which an id is that names none; "" where there is none or several."""
    connecting = list_connecting(channels)
    return connecting[0] if len(connecting) == 1 else ""


def check_lists(
    people: Mapping[str, PersonSettings],
    channels: Mapping[str, ChannelSettings],
    owners: dict[str, Sequence[str]],
    others: Mapping[str, Sequence[str]],
) -> None:
    """Refuse ids that are not clear, people who are not one, and owners whom nothing authenticates."""
    connecting, bare = list_connecting(channels), find_bare_channel(channels)
    index_people(people, bare)
    lists = {**owners, **others, **{f"people: {name}": person.is_ for name, person in people.items()}}
    for place, listed in lists.items():
        check_clear(place, map(spell_link, listed), connecting)
    for place, listed in (
        owners | {f"people: {name}": each.is_ for name, each in people.items() if each.owner}
    ).items():
        check_proven(place, listed, people, bare)
    for name, channel in channels.items():
        check_clear(f"channels: {name}.owners", channel.owners, ())
        check_proven(f"channels: {name}.owners", channel.owners, people, session.to_channel(name) or name)


def list_answerers(section: Any, place: str) -> Iterator[tuple[str, AnswererSettings]]:
    """Yield whatever says beneath a section who may answer, with its place."""
    if isinstance(section, AnswererSettings) and section.model_fields_set & {"by", "count"}:
        yield place, section
    named: Iterable[tuple[Any, Any]] = ()
    if isinstance(section, BaseModel):
        named = ((field.alias or name, getattr(section, name)) for name, field in type(section).model_fields.items())
    elif isinstance(section, Mapping):
        named = section.items()
    elif isinstance(section, tuple):
        named = enumerate(section)
    for name, each in named:
        yield from list_answerers(each, f"{place}[{name}]" if isinstance(name, int) else f"{place}.{name}")


def check_answerers(
    found: Iterable[tuple[str, AnswererSettings]],
    people: Mapping[str, PersonSettings],
    roles: Mapping[str, Sequence[str]],
    owners: Sequence[str],
    connecting: Sequence[str],
) -> None:
    """Refuse who cannot answer: an unclear id, one that nothing authenticates, and more persons than there are.

    Without `owners` there is one, at the terminal.
    """
    bare = connecting[0] if len(connecting) == 1 else ""
    whose, held_by = index_people(people, bare), {fold_name(name): each for name, each in roles.items()}

    def name_person(text: str) -> str:
        known = sender_key(text).list_identities(ID_RULES, bare)
        return next((whose[each] for each in known if each in whose), str(known[-1]) if known else "")

    for place, section in found:
        listed = [each for each in section.by if each != "owner" and not is_role(each)]
        check_clear(f"{place}.by", listed, connecting)
        persons = {"owner"} if "owner" in section.by and not owners else set()
        listed += owners if "owner" in section.by else ()
        for role in (sender_key(each).value for each in section.by if is_role(each)):
            if role not in held_by:
                raise ValueError(f"{place}.by: there is no role {quote_value(role)}; write it under roles")
            listed += held_by[role]
        check_proven(f"{place}.by", listed, people, bare)
        if section.count > (named := len((persons | set(map(name_person, listed))) - {""})):
            raise ValueError(f"{place}.count: {section.count} persons are to say yes, and by holds {named}; list more")


def check_clear(place: str, listed: Iterable[str], connecting: Sequence[str]) -> None:
    """Refuse an id that may be of either of two channels, and an account where ids are the same in every one."""
    for text, key in ((text, sender_key(text)) for text in listed):
        is_id = key.kind in IDENTITIES or (key.kind is None and (":" in text or not text.strip().startswith("@")))
        if is_id and not key.channel and len(connecting) > 1:
            word = f"{key.kind or 'id'}:{key.value}"
            ways = " or ".join(f"{channel}:{word}" for channel in connecting)
            raise ValueError(f"{place}: {quote_value(text)} could be of several channels; write {ways}")
        if key.account and not rules_of(ID_RULES, key.channel).by_account:
            plain = f"{key.channel}:{key.kind}:{key.value}"
            raise ValueError(f"{place}: ids of {key.channel} are the same in every account; write {plain}")


def check_proven(place: str, listed: Iterable[str], people: Mapping[str, PersonSettings], bare: str) -> None:
    """Refuse a list that gives a say to a person whom their channel does not authenticate by any identity."""
    whose = index_people(people, bare)
    named = [each for text in listed for each in sender_key(text).list_identities(ID_RULES, bare)]
    persons = {whose[each] for each in named if each in whose}
    for each in (*named, *(each for each, name in whose.items() if name in persons)):
        sign = rules_of(ID_RULES, each.channel).unproven
        if sign and each.value.startswith(sign):
            what = "is what somebody calls themselves there, and nobody vouches for it; take it out"
            raise ValueError(f"{place}: {quote_value(str(each))} {what}")
