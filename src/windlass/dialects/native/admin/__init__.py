"""Routes of the whole deployment, for its operators."""
