"""The client of the Muster platform, for Python 3.11 and later, on the standard library alone.

    from muster import Client, Problem

    client = Client("https://muster.example", token="mst_sat_…")
    print(client.whoami()["name"])

There is a method for each operation of the API, generated from its document, and a TypedDict for each of its schemas in
`muster.types`; arguments and results are the JSON itself.
"""

from . import generated_types as types
from .connection import Lost, Problem, fresh_key
from .generated_client import Client

__all__ = ["Client", "Lost", "Problem", "fresh_key", "types"]
