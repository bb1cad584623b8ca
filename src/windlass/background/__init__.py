"""What happens by itself? Each loop is a tick that says when it wants to run next."""
