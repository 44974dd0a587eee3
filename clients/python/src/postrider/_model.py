"""The base of what the server answers."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An answer or an event. What a later server adds is kept in `model_extra`."""

    model_config = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True, protected_namespaces=()
    )
