"""Requests that schemathesis makes from our OpenAPI description: no 5xx, nothing undocumented."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serving_process import ServerProcess

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 3  # of each operation, valid and invalid


@pytest.mark.filterwarnings("ignore")
def test_answers_are_documented(server: ServerProcess) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) > 35
    for operation in operations:
        for mode in schemathesis.GenerationMode:
            check(operation, mode)
    assert "Traceback" not in server.log


def check(operation: Any, mode: Any) -> None:
    """Send some requests for an operation."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    try:
        send()
    except BaseException as error:
        if "Unsatisfiable" not in type(error).__name__ and "Skip" not in type(error).__name__:
            raise
