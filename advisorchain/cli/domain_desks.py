"""The domain servers of the MCP demo: orders, activities and users of a shop, each a class of tools."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ToolError
from ..tools import tool
from .demo_texts import Language

USER, ORDER, REFUND, ACTIVITY = "U7", "O1002", "R77", "A42"
"""The story: this user's order was for an activity that was cancelled; its refund is on the way."""

_NAMES: dict[str, dict[Language, str]] = {
    "machine": {"en": "Espresso machine", "zh": "意式咖啡机"},
    "ticket": {"en": "Ticket for the autumn hike", "zh": "秋季徒步的门票"},
    "hike": {"en": "Autumn hike", "zh": "秋季徒步"},
    "storm": {"en": "storm warning", "zh": "暴风预警"},
}


class OrderDesk:
    """Orders and refunds."""

    language: ClassVar[Language] = "en"

    def __init__(self) -> None:
        def row(order_id: str, item: str, amount: int, status: str) -> dict[str, Any]:
            named = _NAMES[item][self.language]
            return {"order_id": order_id, "user_id": USER, "item": named, "amount": amount, "status": status}

        self._orders = {
            "O1001": row("O1001", "machine", 240, "delivered"),
            ORDER: row(ORDER, "ticket", 60, "refunding"),
        }
        self._refunds: dict[str, dict[str, Any]] = {
            ORDER: {
                "refund_id": REFUND, "order_id": ORDER, "amount": 60, "status": "approved",
                "because_of_activity": ACTIVITY,
            }
        }  # fmt: skip

    @tool(name="queryOrder", title="queryOrder", read_only=True, idempotent=True)
    async def query_order(self, order_id: str) -> dict[str, Any]:
        """One order."""
        return self._order(order_id)

    @tool(name="queryOrderList", title="queryOrderList", read_only=True, idempotent=True)
    async def query_order_list(self, user_id: str) -> dict[str, Any]:
        """All orders of a user."""
        return {"orders": [order for order in self._orders.values() if order["user_id"] == user_id]}

    @tool(name="applyRefund", title="applyRefund", destructive=True, idempotent=True)
    async def apply_refund(self, order_id: str, reason: str) -> dict[str, Any]:
        """Apply for a refund of an order."""
        order = self._order(order_id)
        if order_id not in self._refunds:
            order["status"] = "refunding"
            number = f"R{77 + len(self._refunds)}"
            self._refunds[order_id] = {
                "refund_id": number, "order_id": order_id, "amount": order["amount"], "status": "applied",
                "reason": reason,
            }  # fmt: skip
        return self._refunds[order_id]

    @tool(name="queryRefundStatus", title="queryRefundStatus", read_only=True, idempotent=True)
    async def query_refund_status(self, order_id: str) -> dict[str, Any]:
        """The refund of an order: its status, and the activity because of which it was applied for, if any."""
        self._order(order_id)
        if order_id not in self._refunds:
            raise ToolError(f"Nobody has applied for a refund of {order_id}.")
        return self._refunds[order_id]

    def _order(self, order_id: str) -> dict[str, Any]:
        if order_id not in self._orders:
            raise ToolError(f"There is no order {order_id!r}.")
        return self._orders[order_id]


class ActivityDesk:
    """Activities that users sign up for."""

    language: ClassVar[Language] = "en"

    def __init__(self) -> None:
        hike, storm = _NAMES["hike"][self.language], _NAMES["storm"][self.language]
        self._activities: dict[str, dict[str, Any]] = {
            ACTIVITY: {"activity_id": ACTIVITY, "name": hike, "status": "cancelled", "reason": storm}
        }

    @tool(name="queryActivity", title="queryActivity", read_only=True, idempotent=True)
    async def query_activity(self, activity_id: str) -> dict[str, Any]:
        """One activity: its name, and whether it takes place."""
        return self._activity(activity_id)

    @tool(name="updateActivity", title="updateActivity", idempotent=True)
    async def update_activity(self, activity_id: str, name: str) -> dict[str, Any]:
        """Rename an activity."""
        self._activity(activity_id)["name"] = name
        return self._activity(activity_id)

    @tool(name="querySignupList", title="querySignupList", read_only=True, idempotent=True)
    async def query_signup_list(self, activity_id: str) -> dict[str, Any]:
        """Who has signed up for an activity."""
        self._activity(activity_id)
        return {"activity_id": activity_id, "users": [USER]}

    @tool(name="closeActivity", title="closeActivity", destructive=True, idempotent=True)
    async def close_activity(self, activity_id: str) -> dict[str, Any]:
        """Close an activity: nobody can sign up any more."""
        self._activity(activity_id)["status"] = "closed"
        return self._activity(activity_id)

    def _activity(self, activity_id: str) -> dict[str, Any]:
        if activity_id not in self._activities:
            raise ToolError(f"There is no activity {activity_id!r}.")
        return self._activities[activity_id]


class UserDesk:
    """Points of users, and messages to them."""

    def __init__(self) -> None:
        self._points = {USER: 120}
        self._sent = 0

    @tool(name="queryUserPoints", title="queryUserPoints", read_only=True, idempotent=True, return_direct=True)
    async def query_user_points(self, user_id: str) -> dict[str, Any]:
        """How many points a user has."""
        return {"user_id": user_id, "points": self._of(user_id)}

    @tool(name="adjustPoints", title="adjustPoints", destructive=True)
    async def adjust_points(self, user_id: str, by: int) -> dict[str, Any]:
        """Give points to a user, or take some away."""
        self._points[user_id] = self._of(user_id) + by
        return {"user_id": user_id, "points": self._points[user_id]}

    @tool(name="sendNotification", title="sendNotification", open_world=True)
    async def send_notification(self, user_id: str, text: str) -> dict[str, Any]:
        """Send a message to a user."""
        self._of(user_id)
        self._sent += 1
        return {"user_id": user_id, "sent": self._sent}

    def _of(self, user_id: str) -> int:
        if user_id not in self._points:
            raise ToolError(f"There is no user {user_id!r}.")
        return self._points[user_id]


class OrderDeskInChinese(OrderDesk):
    """The same orders with Chinese names."""

    language = "zh"


class ActivityDeskInChinese(ActivityDesk):
    """The same activities with Chinese names."""

    language = "zh"
