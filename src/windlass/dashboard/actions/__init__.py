"""What can be done from a page: one module per subject, one function per verb."""
