"""Bedrock::Jobs over TCP: the wire and its connections, and behind them the desk that answers the commands."""
