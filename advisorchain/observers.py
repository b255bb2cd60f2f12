"""What watches the turns of a client, or the calls of a server: chosen without importing OpenTelemetry for nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import ConfigurationError
from .observation import Observer

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from .telemetry import Telemetry

Watch = Callable[[], Observer | None]
"""Asked when a turn begins: what watches it, or None."""


def watch_of(
    telemetry: bool | Telemetry, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
) -> Watch:
    """The settings of a client as a function that its turns ask.

    Raises:
        ConfigurationError: ``telemetry`` is none of them, or is False and there are providers.
    """
    if telemetry is True and tracer_provider is None and meter_provider is None:
        return global_observer
    if telemetry is False:
        if tracer_provider is not None or meter_provider is not None:
            raise ConfigurationError("telemetry=False records nothing: leave tracer_provider= and meter_provider= out.")
        return nothing
    from .telemetry import Telemetry

    settings: Any = Telemetry() if telemetry is True else telemetry
    if not isinstance(settings, Telemetry):
        raise ConfigurationError(f"telemetry= takes True, False or Telemetry(...), not {telemetry!r}.")
    if tracer_provider is not None or meter_provider is not None:
        settings = settings.with_providers(tracer_provider, meter_provider)
    watch: Watch = settings.observer
    return watch


def nothing() -> None:
    """Nothing watches."""


def global_observer() -> Observer | None:
    """What the global providers of OpenTelemetry record with, once the application has set one.

    That it has not is known without importing OpenTelemetry, which takes some 50 ms.
    """
    modules = sys.modules
    if "opentelemetry.trace" not in modules and "opentelemetry.metrics" not in modules:
        return None
    from .telemetry.otel import DEFAULT

    return DEFAULT.observer()
