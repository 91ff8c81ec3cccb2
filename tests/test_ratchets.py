"""Names mean one thing, functions are verbs, limits name their noun, files are ideas, an underscore is private."""

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.architecture import Tree
from tests.ratchets import EXCEPTIONS, bare_limits, crumbs, homonyms, participles, private_imports
from tests.test_architecture import REAL, made_up

RULES = (homonyms, participles, bare_limits, crumbs, private_imports)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_what_breaks_a_rule_is_listed_and_what_is_listed_breaks_it(rule: Callable[[Tree], Collection[str]]) -> None:
    assert sorted(rule(REAL)) == sorted(EXCEPTIONS.get(rule.__name__, {}))


def test_each_exception_has_its_reason() -> None:
    reasons = {name: reason for listed in EXCEPTIONS.values() for name, reason in listed.items()}
    assert [name for name, reason in reasons.items() if len(reason) < 10] == []


def tree_of(folder: Path, **files: str) -> Tree:
    return made_up(folder, {name.replace("__", "/") + ".py": text for name, text in files.items()})


def test_a_name_that_two_modules_export_is_found(tmp_path: Path) -> None:
    one, two = '__all__ = ["Place", "one"]\nclass Place: ...\ndef one(): ...', '__all__ = ["Place"]\nPlace = 1'
    assert homonyms(tree_of(tmp_path, define__a=one, policy__b=two)) == {"Place": "define.a, policy.b"}


def test_a_name_that_is_passed_on_has_one_home(tmp_path: Path) -> None:
    face = 'from .define.a import Place\n__all__ = ["Place"]'
    assert homonyms(tree_of(tmp_path, face=face, define__a='__all__ = ["Place"]\nclass Place: ...')) == {}


def test_a_public_function_that_is_a_participle_is_found(tmp_path: Path) -> None:
    text = (
        "def told(): ...\ndef shown_to(): ...\ndef need(): ...\ndef feed(): ...\ndef is_kept(): ...\ndef _told(): ...\n"
        "class A:\n    def renamed(self): ...\n    @property\n    def joined(self): ...\n    def read(self): ..."
    )
    found = participles(tree_of(tmp_path, define__a=text))
    assert found == {"define.a.told", "define.a.shown_to", "define.a.renamed"}


def test_a_limit_without_a_noun_is_found(tmp_path: Path) -> None:
    text = "_MOST = 1\nLONGEST = 2\n_MAX_CALLS = 3\n_MOST_CALLS = 4"
    assert bare_limits(tree_of(tmp_path, define__a=text)) == {"define.a._MOST", "define.a.LONGEST"}


def test_a_small_file_with_one_reader_is_found(tmp_path: Path) -> None:
    large = "from .b import x\nfrom .c import y\n" + "z = 1\n" * 60
    assert crumbs(tree_of(tmp_path, define__a=large, define__b="x = 1", define__c="y = 1\n" * 60)) == {"define.b"}


def test_what_another_room_keeps_private_is_found(tmp_path: Path) -> None:
    text = (
        "from ._b import x\nfrom ..policy import _c\nfrom ..policy._d import y\nfrom toolcrib.policy.e import _z, __a__"
    )
    files = {"define__a": text, "define___b": "", "policy___c": "", "policy___d": "", "policy__e": "_z = 1"}
    assert private_imports(tree_of(tmp_path, **files)) == {
        f"define.a imports policy.{name}" for name in ("_c", "_d.y", "e._z")
    }
