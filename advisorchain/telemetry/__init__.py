"""OpenTelemetry: what happened in a turn, as spans, metrics and events; off until a provider is set up."""

from __future__ import annotations

from .names import CONVENTIONS
from .otel import AdvisorSpans, CaptureContent, Telemetry

__all__ = ["CONVENTIONS", "AdvisorSpans", "CaptureContent", "Telemetry"]
