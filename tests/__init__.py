"""Tests of Windlass: folders mirror src/windlass; shared support is in tests/support."""
