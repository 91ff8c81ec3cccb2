"""The judge of command lines. Pure: a line, rules and a look-up of programs in, one of run, ask and deny out.

rules = rules_from(config.tools.exec)
judge("git status && ls src", rules, look_up).decision        # "run"
"""

from .judge import Judgement, judge, judge_argv
from .permit import Plain
from .rules import CommandRules, look_up_in, rules_from

__all__ = ["CommandRules", "Judgement", "Plain", "judge", "judge_argv", "look_up_in", "rules_from"]
