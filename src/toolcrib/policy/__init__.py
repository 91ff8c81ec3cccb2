"""Layer 3: who may use which tool, and why. Pure: settings and caller in, a Verdict for every tool out.

layers = layers_for(settings, caller)              # settings + caller -> the named layers
selection = gate(tools, groups, layers, Facts())   # tools + layers -> Selection
selection.verdicts["exec"].reason
"""

from toolcrib.define.verdict import Decision, Layer, LayerName, LayerStep, Rule, Selection, Verdict

from .explain import explain_json, explain_rows, explain_sentence, verdict_json
from .gate import Facts, gate
from .layers import layers_for
from .lint import Expect, Finding, lint
from .resolve import is_owner, is_sandboxed
from .settings import PROFILES, SUBAGENT_DENY, AgentPolicy, ChannelPolicy, GroupPolicy, PolicySettings, ToolsSettings

__all__ = [
    "PROFILES", "SUBAGENT_DENY", "AgentPolicy", "ChannelPolicy", "Decision", "Expect", "Facts", "Finding",
    "GroupPolicy", "Layer", "LayerName", "LayerStep", "PolicySettings", "Rule", "Selection", "ToolsSettings", "Verdict",
    "explain_json", "explain_rows", "explain_sentence", "gate", "is_owner", "is_sandboxed", "layers_for", "lint",
    "verdict_json",
]  # fmt: skip
