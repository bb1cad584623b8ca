"""Actions of the pages: one module per subject, one function per verb."""
