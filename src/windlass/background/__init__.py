"""Background work of a deployment. Each loop is a tick that returns when it must run next."""
