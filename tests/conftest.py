"""What every test may use."""

import pytest
from hypothesis import HealthCheck, settings

# a busy machine, or one that builds its table of characters for the first time, is no reason to fail
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, the only loop toolcrib knows."""
    return "asyncio"
