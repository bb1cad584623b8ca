"""The page of a flow: its graph, folded where it is large, and what blocks it."""
