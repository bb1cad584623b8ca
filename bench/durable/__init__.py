"""Durable steps of Windlass beside DBOS: steps per second, cost for engine and program, time to continue after a kill.

The programs are in bench/peers/dbos/app.py and bench/peers/windlass/durable.py; both speak the protocol of
bench/peers/spoken/durable.py. All systems flush to disk before they acknowledge a step."""
