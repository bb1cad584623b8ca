"""How is it asked? Each dialect parses, asks the service, and formats the answer."""
