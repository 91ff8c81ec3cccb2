"""Layer 2: which tools exist."""

from .catalog import Catalog, Problem
from .groups import groups_of
from .sources import Offer, catalog_from

__all__ = ["Catalog", "Offer", "Problem", "catalog_from", "groups_of"]
