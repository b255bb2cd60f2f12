"""A tool that forwards to an HTTP API with a bearer token."""

from __future__ import annotations

import httpx2

from advisorchain import Tool, ToolError, tool


class InvoiceApi:
    """The token stays in the object: no model sees it, and no error text shows it."""

    def __init__(self, base_url: str, token: str) -> None:
        self.base_url = base_url
        self._headers = {"Authorization": f"Bearer {token}"}

    @tool(return_direct=True, read_only=True, timeout=10)
    async def get_invoice(self, number: int) -> str:
        """Get an invoice by its number, as JSON."""
        async with httpx2.AsyncClient(
            base_url=self.base_url, headers=self._headers
        ) as http:
            response = await http.get(f"/invoices/{number}")
        if response.status_code == 404:
            raise ToolError(f"There is no invoice {number}.")
        if response.is_error:
            raise ToolError(
                f"The invoice service answered with status {response.status_code}."
            )
        return response.text


def invoice_tools(base_url: str, token: str) -> list[Tool]:
    """The tools for ``tools=[...]``."""
    return list(Tool.from_object(InvoiceApi(base_url, token)))
