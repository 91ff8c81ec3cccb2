"""What a docstring says about parameters stands at the parameters, whoever's style it is in."""

from typing import Annotated, Any

import pytest

from toolcrib.define.actions import actions
from toolcrib.define.context import Ctx
from toolcrib.define.errors import DeclarationError
from toolcrib.define.tool import Tool, tool

GOOGLE = """Look up the weather.

    It may rain.

    Args:
        ctx: what a tool may touch
        city (str): where: a town,
            in lower case

        days (Optional[dict[str, int]], optional): how many

    Returns:
        words about it: rain or none
    """
NUMPY = """Look up the weather.

    It may rain.

    Parameters
    ----------
    ctx
    city : str
        where: a town,
        in lower case
    days : {1, 2}, optional
        how many

    Returns
    -------
    str
        words about it: rain or none
    """
SPHINX = """Look up the weather.

    It may rain.

    :param ctx: what a tool may touch
    :param city: where: a town,
        in lower case
    :type city: str
    :param int days: how many
    :returns: words about it: rain or none
    """


def declare(doc: str, **options: Any) -> Tool:
    def weather(ctx: Ctx, city: str, days: int = 1) -> str:
        return city

    weather.__doc__ = doc
    return tool(**options)(weather)


def words(each: Tool) -> dict[str, str | None]:
    return {name: schema.get("description") for name, schema in each.parameters["properties"].items()}


@pytest.mark.parametrize(
    ("doc", "rest"),
    [
        (GOOGLE, "Returns:\n    words about it: rain or none"),
        (GOOGLE.replace("Args:", "Parameters:"), "Returns:\n    words about it: rain or none"),
        (NUMPY, "Returns\n-------\nstr\n    words about it: rain or none"),
        (SPHINX, ":returns: words about it: rain or none"),
    ],
    ids=["google", "google, another heading", "numpy", "sphinx"],
)
def test_words_about_parameters_move_to_them_and_leave_the_description(doc: str, rest: str) -> None:
    made = declare(doc)
    assert words(made) == {"city": "where: a town, in lower case", "days": "how many"}
    assert made.description == f"Look up the weather.\n\nIt may rain.\n\n{rest}"


def test_a_description_that_is_given_stays_and_the_parameters_have_theirs() -> None:
    made = declare(GOOGLE, description="Weather.\n\nArgs:\n    city: no")
    assert (made.description, words(made)["days"]) == ("Weather.\n\nArgs:\n    city: no", "how many")


def test_an_annotation_wins_over_the_docstring() -> None:
    @tool
    def weather(city: Annotated[str, "a town"], days: int) -> str:
        """Weather.

        Args:
            city: where
            days: how many
        """
        return city

    assert words(weather) == {"city": "a town", "days": "how many"}
    assert weather.description == "Weather."


@pytest.mark.parametrize(
    "doc",
    [
        "Weather.\n\nArgs:\n    town: where\n    city: where",  # one that is no parameter
        "Weather.\n\nArgs:\n    see the page about weather",
        "Weather.\n\nArgs: city and days",
        "Weather.\n\nParameters\n\ncity is a town",
        "Weather.\n\nNotes:\n    city: where",
        "Weather.\n\nWrite:\n    Args:\n        city: in an example",
    ],
)
def test_what_is_no_list_of_parameters_stays_where_it_is(doc: str) -> None:
    assert declare(doc).description == doc


def test_a_docstring_of_parameters_alone_says_nothing_about_the_tool() -> None:
    with pytest.raises(DeclarationError, match="needs a docstring or a description"):
        declare("\nArgs:\n    city: where\n    days: how many")


def test_actions_have_the_words_of_their_docstrings() -> None:
    def add(text: str) -> str:
        """Write down.

        :param text: what to keep
        """
        return text

    notes = actions("notes", "Keep notes.", {"add": add})
    assert notes.description == "Keep notes.\n\nActions:\n- add: Write down."
    assert words(notes)["text"] == "what to keep (add)"
