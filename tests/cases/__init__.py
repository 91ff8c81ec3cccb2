"""Recorded cases of the systems we follow, and the attacks: run over our own functions and counted.

`python -m tests.cases` (`./check cases`) prints the table; `test_cases.py` runs the same cases under pytest. A file's
adapters live in the modules named here; a file without a module is only counted.

    a module for a recorded file has   ADAPTERS: dict[str, Callable[[dict], Any]]     recorded name -> our answer
                         and may have  THEIRS: dict[str, Callable[[Case], Any]]       what was recorded, in our shape
                                       FORM: dict[str, Callable[[Any], Any]]          what is compared of both
                                       SAME: dict[str, Callable[[Case, Any], str]]    another comparison, "" is same
    a module for an attack file has    judge(case: dict, profiles: dict) -> Outcome

An adapter takes the recorded arguments and returns our answer in the recorded shape, or raises one of our errors. Where
that is another answer than the recorded one, `answers/<file>.json` has it, approved with its reason.
"""

MODULES: dict[str, tuple[str, ...]] = {
    "attacks/arguments": ("tests.attacks.arguments",),
    "attacks/config": ("tests.attacks.config",),
    "attacks/exec": ("tests.attacks.exec",),
    "attacks/gateway": ("tests.attacks.gateway",),
    "attacks/markers": ("tests.attacks.markers",),
    "attacks/paths": ("tests.attacks.paths",),
    "attacks/policy": ("tests.attacks.policy",),
    "attacks/ssrf": ("tests.attacks.ssrf",),
    "attacks/resources": ("tests.attacks.resources_streams",),
    "gemini-agent-files": ("tests.cases.gemini_agent_files",),
    "gemini-complete-task": ("tests.cases.gemini_subagents",),
    "gemini-edit-and-output": ("tests.cases.edits", "tests.cases.gemini_output"),
    "gemini-hook-runner": ("tests.cases.gemini_hooks",),
    "gemini-hooks": ("tests.cases.gemini_hooks",),
    "gemini-input-schema": ("tests.cases.gemini_input_schema",),
    "gemini-message-bus": ("tests.cases.gemini_bus",),
    "gemini-policy": ("tests.cases.gemini_policy",),
    "gemini-policy-helpers": ("tests.cases.gemini_policy_helpers",),
    "gemini-scheduler": ("tests.cases.gemini_scheduler",),
    "gemini-schema-validate": ("tests.cases.gemini_schema",),
    "gemini-subagent-loop": ("tests.cases.gemini_subagents",),
    "gemini-template": ("tests.cases.gemini_template",),
    "gemini-tool-names": ("tests.cases.tool_names",),
    "openclaw-adapter-hooks": ("tests.cases.adapter_hooks",),
    "openclaw-apply-patch": ("tests.cases.apply_patch",),
    "openclaw-claude-params": ("tests.cases.claude_params",),
    "openclaw-cron": ("tests.cases.cron",),
    "openclaw-nodes-canvas-browser": ("tests.cases.nodes", "tests.cases.browser"),
    "openclaw-edit-write-ls": ("tests.cases.edits", "tests.cases.writes"),
    "openclaw-exec-tool": ("tests.cases.exec_tool",),
    "openclaw-exec-allowlist": ("tests.cases.exec_allowlist",),
    "openclaw-external-content": ("tests.cases.external_content",),
    "openclaw-gateway": ("tests.cases.gateway",),
    "openclaw-media-web": ("tests.cases.egress", "tests.cases.media_web", "tests.cases.web_search"),
    "openclaw-memory": ("tests.cases.memory", "tests.cases.memory_index"),
    "openclaw-param-readers": ("tests.cases.param_readers",),
    "openclaw-plugins-config-message": ("tests.cases.plugins_config",),
    "openclaw-policy": ("tests.cases.policy",),
    "openclaw-process": ("tests.cases.process",),
    "openclaw-read-tool": ("tests.cases.reads", "tests.cases.cuts"),
    "openclaw-schema": ("tests.cases.schema",),
    "openclaw-sdk-validation": ("tests.cases.validate",),
    "openclaw-session-keys": ("tests.cases.session_keys",),
    "openclaw-tool-results": ("tests.cases.tool_results_text", "tests.cases.tool_results_calls"),
    "pi-agent-loop": ("tests.cases.pi_agent_loop",),
    "pi-bash": ("tests.cases.pi_bash",),
    "pi-edit": ("tests.cases.edits",),
    "pi-grep-find-ls": ("tests.cases.writes", "tests.cases.grep_find"),
    "pi-misc": ("tests.cases.pi_misc", "tests.cases.writes"),
    "pi-multiedit": ("tests.cases.edits",),
    "pi-partial-json": ("tests.cases.partial_json",),
    "pi-provider-payloads": ("tests.cases.payloads_openai", "tests.cases.payloads_other"),
    "pi-read": ("tests.cases.reads",),
    "pi-session-compaction": ("tests.cases.pi_sessions",),
    "pi-truncate": ("tests.cases.cuts",),
    "pi-validate": ("tests.cases.validate",),
    "pi-write": ("tests.cases.writes",),
}
