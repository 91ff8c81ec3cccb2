"""Layer 2: which tools exist."""

from .catalog import Catalog, Problem, groups_of
from .sources import Offer, collect_catalog

__all__ = ["Catalog", "Offer", "Problem", "collect_catalog", "groups_of"]
