"""Commands about access to a server: tokens, and the audit log."""
