"""Commands for administration: tokens, audit log, doctor, export, maintenance."""
