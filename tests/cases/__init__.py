"""Recorded cases of the systems we follow, and the attacks: run over our own functions and counted.

`python -m tests.cases` (`./check cases`) prints the table; `test_cases.py` runs the same cases under pytest. A file's
adapters live in the modules named here; a file without a module is only counted.

    a module for a recorded file has   ADAPTERS: dict[str, Callable[[dict], Any]]     recorded name -> our answer
                         and may have  SAME: dict[str, Callable[[Case, Any], str]]    another comparison, "" is same
    a module for an attack file has    judge(case: dict, profiles: dict) -> Outcome

An adapter takes the recorded arguments and returns our answer in the recorded shape, or raises one of our errors.
"""

MODULES: dict[str, tuple[str, ...]] = {
    "attacks/config": ("tests.attacks.config",),
    "attacks/markers": ("tests.attacks.markers",),
    "attacks/policy": ("tests.attacks.policy",),
    "gemini-schema-validate": ("tests.cases.gemini_schema",),
    "openclaw-external-content": ("tests.cases.external_content",),
    "openclaw-param-readers": ("tests.cases.param_readers",),
    "openclaw-plugins-config-message": ("tests.cases.plugins_config",),
    "openclaw-policy": ("tests.cases.policy",),
    "openclaw-schema": ("tests.cases.schema",),
    "openclaw-session-keys": ("tests.cases.session_keys",),
    "openclaw-tool-results": ("tests.cases.tool_results_text",),
}
