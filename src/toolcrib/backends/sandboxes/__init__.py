"""Where files and commands of agents live: workspaces and shells."""
