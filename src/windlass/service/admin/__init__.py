"""Service operations for administration: tokens, audit log, doctor, export, maintenance."""
