"""The program that the official conformance suite drives: our client side against the server under its last argument.

It goes the way of an application: `McpServer`, `McpTools`, a `ChatClient`; the model is a script. It lists the tools,
and calls each of them once, or makes the calls that the scenario asks for.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from advisorchain import ChatClient, Tool, ToolCall
from advisorchain.mcp import McpServer, McpTools, Question, RemoteTool
from advisorchain.testing import ScriptedModel

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
CALLBACK = "http://localhost:3000/callback"
CLIENT_ABOUT = "https://conformance-test.local/client-metadata.json"


class Tokens:
    """Keeps tokens, and what the client is registered as, for the life of the program."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Stands for the user's browser: opens the page, and is sent back with a code at once."""

    def __init__(self) -> None:
        self.query: httpx2.QueryParams = httpx2.QueryParams()

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(url, follow_redirects=False)
        self.query = httpx2.URL(answer.headers["location"]).params

    async def result(self) -> AuthorizationCodeResult:
        query = self.query
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


def auth_of(url: str) -> Any:
    """How this scenario wants the client to authorise itself; None: not at all."""
    if not SCENARIO.startswith("auth/"):
        return None
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, Tokens(), CONTEXT["client_id"], CONTEXT["client_secret"])
    if SCENARIO == "auth/client-credentials-jwt":
        jwt = SignedJWTParameters(
            issuer=CONTEXT["client_id"], subject=CONTEXT["client_id"], signing_key=CONTEXT["private_key_pem"],
            signing_algorithm=CONTEXT["signing_algorithm"],
        )  # fmt: skip
        return PrivateKeyJWTOAuthProvider(url, Tokens(), CONTEXT["client_id"], jwt.create_assertion_provider())
    known = None
    if "client_id" in CONTEXT:
        known = OAuthClientInformationFull(
            client_id=CONTEXT["client_id"],
            client_secret=CONTEXT.get("client_secret"),
            redirect_uris=[CALLBACK],  # type: ignore[list-item]
            token_endpoint_auth_method="client_secret_basic",
            issuer=CONTEXT.get("issuer"),
        )
    browser = Browser()
    about = OAuthClientMetadata(
        client_name="advisorchain-conformance", redirect_uris=[CALLBACK],  # type: ignore[list-item]
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )  # fmt: skip
    return OAuthClientProvider(
        url, about, Tokens(known), browser.open, browser.result, client_metadata_url=CLIENT_ABOUT
    )


async def take_defaults(question: Question) -> dict[str, Any]:
    """Answer a question of the server with the defaults of its own schema."""
    fields = question.schema.get("properties", {})
    return {name: field["default"] for name, field in fields.items() if "default" in field}


def calls_for(tools: list[Tool]) -> list[ToolCall]:
    """What the scenario wants to be called: its own list, or each tool once."""
    if "toolCalls" in CONTEXT:
        return [ToolCall(call["name"], call["arguments"]) for call in CONTEXT["toolCalls"]]
    arguments: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
    for tool in tools:
        if isinstance(tool, RemoteTool) and tool.listed.name == "json_schema_2020_12_tool":
            arguments["json_schema_echo"] = {"schema": dict(tool.listed.input_schema)}
            arguments[tool.listed.name] = {"email": "ada@example.org"}
    return [ToolCall(tool.name, arguments.get(tool.name) or enough_for(tool.input_schema)) for tool in tools]


def enough_for(schema: Any) -> dict[str, Any]:
    """A value of the right type for every argument that must be there."""
    samples = {
        "string": "sample",
        "integer": 1,
        "number": 1.5,
        "boolean": True,
        "array": [],
        "object": {},
        "null": None,
    }
    properties = schema.get("properties", {})
    return {name: samples[properties[name]["type"]] for name in schema.get("required", ())}


async def main() -> int:
    url = sys.argv[-1]
    elicitation = take_defaults if "elicitation" in SCENARIO or "request-state" in SCENARIO else None
    server = McpServer.http(url, name="suite", auth=auth_of(url), elicitation=elicitation, call_timeout=20)
    async with McpTools([server]) as tools:
        model = ScriptedModel([[call] for call in calls_for(list(await tools.listed()))] + ["Done."])
        response = await ChatClient(model, tools=[tools]).call("Use every tool.")
        for message in response.new_messages:
            print(message)
        (status,) = tools.status()
        print(status)
    return 0 if status.error is None else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main))
