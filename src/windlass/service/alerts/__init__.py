"""Alert operations: rules and their incidents, and the evaluation of the rules."""
