"""Flows: their data, the order of their steps, and copies."""

from .flow import FLOW_STATES, Flow, FlowPage, FlowState, FlowStep, FlowSummary, ResumedFlow

__all__ = ["FLOW_STATES", "Flow", "FlowPage", "FlowState", "FlowStep", "FlowSummary", "ResumedFlow"]
