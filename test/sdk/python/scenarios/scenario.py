"""What a scenario is to the runner: a function that is called with a Bus, and how long it may take."""

import dataclasses
import typing

from .bus import Bus


@dataclasses.dataclass(frozen=True)
class Scenario:
    show: typing.Callable[[Bus], None]
    limit: float  # seconds


scenarios: dict[str, Scenario] = {}  # by id


def scenario(id: str, *, limit: float = 60):
    """Registers the function below as the scenario of that id. Those with a high limit are begun first."""

    def register(show):
        assert id not in scenarios, id
        scenarios[id] = Scenario(show, limit)
        return show

    return register
