"""A package, so that its fixtures end with the last of its tests, and with them their event loop and its threads."""
