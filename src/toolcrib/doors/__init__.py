"""In: the ways people and programs reach a crib."""
