"""A gateway of this product, asked where Databricks' clients ask."""

from collections.abc import Iterator

from model_wrapper.targets import invocations
from model_wrapper.targets.base import JSONObject


class Gateway:
    """A running ``python -m app serve``.

    Args:
        url: its address, such as ``http://127.0.0.1:8080``.
        api_key: what it asks for, if anything.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def invoke(self, endpoint: str, body: JSONObject) -> JSONObject:
        """Ask it and return its whole answer. It takes any name for its own."""
        return invocations.invoke(self._at(endpoint), self._headers, body)

    def stream(self, endpoint: str, body: JSONObject) -> Iterator[JSONObject]:
        """Ask it and return its events as they come."""
        return invocations.stream(self._at(endpoint), self._headers, body)

    def _at(self, endpoint: str) -> str:
        return f"{self._url}/serving-endpoints/{endpoint}/invocations"
