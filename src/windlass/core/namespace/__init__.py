"""Properties of a namespace as a whole."""
