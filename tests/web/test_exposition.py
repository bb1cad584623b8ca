"""Tests of the exposition format: Prometheus reads any label text unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from windlass.web.metrics.exposition import Exposition


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e")), st.floats())
def test_any_label_and_any_number(text: str, value: float) -> None:
    exposition = Exposition()
    exposition.comment("Something.")
    exposition.metric("some_figure", "gauge", "A figure.")
    exposition.sample("some_figure", value, queue=text, state="queued")
    exposition.sample("some_figure", 1)
    [family] = text_string_to_metric_families(exposition.encode().decode())
    first, second = family.samples
    assert first.labels == {"queue": text, "state": "queued"}
    assert repr(first.value) == repr(value)
    assert (second.labels, second.value, family.documentation) == ({}, 1, "A figure.")
