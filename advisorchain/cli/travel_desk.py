"""The demo's tools: the travel desk of a company, in English and in Chinese."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..tools import tool

Department = Literal["engineering", "sales", "marketing"]
DepartmentInChinese = Literal["工程部", "销售部", "市场部"]

IN_CHINESE: dict[str, DepartmentInChinese] = {"engineering": "工程部", "sales": "销售部", "marketing": "市场部"}


class TravelRequest(NamedTuple):
    """One request: its amount is None when it was rejected over budget."""

    status: Literal["approved", "pending", "rejected"]
    amount: int | None
    department: Department


REQUESTS = {
    "TR001": TravelRequest("approved", 5000, "engineering"),
    "TR002": TravelRequest("pending", 3000, "sales"),
    "TR003": TravelRequest("rejected", None, "marketing"),
}


class Totals(NamedTuple):
    """A travel budget: what is approved and pending, and the ids of what was rejected."""

    approved: int
    pending: int
    rejected: tuple[str, ...]


class BudgetService:
    """Adds the requests up; the desk asks it for budgets."""

    async def totals(self, department: str | None = None) -> Totals:
        """The budget of a department (``"sales"``), or of all."""
        found = {number: request for number, request in REQUESTS.items() if department in (None, request.department)}

        def amount(status: str) -> int:
            return sum(request.amount or 0 for request in found.values() if request.status == status)

        rejected = tuple(number for number, request in found.items() if request.status == "rejected")
        return Totals(amount("approved"), amount("pending"), rejected)


class TravelDesk:
    """Two tools: a return-direct one that looks a request up, and a normal one that adds the budget up.

    Args:
        budget: the service that the second tool asks; default: one that always works.
    """

    def __init__(self, budget: BudgetService | None = None) -> None:
        self._budget = budget or BudgetService()

    @tool(return_direct=True, read_only=True, idempotent=True)
    async def query_travel_request(self, request_id: str = "") -> str:
        """Look up the approval status of a travel request.

        Args:
            request_id: the request's id, such as TR001
        """
        number = request_id.strip().upper()
        if not number:
            return "Which travel request? Please give its id, for example TR001."
        request = REQUESTS.get(number)
        if request is None:
            return f"There is no travel request {number}. Known requests: {', '.join(REQUESTS)}."
        if request.amount is None:
            return f"{number} is rejected: over budget. Department: {request.department}."
        return f"{number} is {request.status}. Amount: {request.amount}. Department: {request.department}."

    @tool(read_only=True, idempotent=True)
    async def analyze_travel_budget(self, department: Department | None = None) -> str:
        """Analyze the travel budget: what is approved, pending and rejected.

        Args:
            department: only this department; default: all of them
        """
        found = await self._budget.totals(department)
        rejected = ", ".join(found.rejected) or "none"
        whose = department.capitalize() if department else "All departments"
        return f"{whose}: {found.approved} approved, {found.pending} pending, rejected as over budget: {rejected}."


class TravelDeskInChinese:
    """The same two tools with Chinese descriptions and results.

    Args:
        budget: the service that the second tool asks; default: one that always works.
    """

    def __init__(self, budget: BudgetService | None = None) -> None:
        self._budget = budget or BudgetService()

    @tool(return_direct=True, read_only=True, idempotent=True, title="查询差旅申请")
    async def query_travel_request(self, request_id: str = "") -> str:
        """查询差旅申请的审批状态。

        Args:
            request_id: 差旅申请编号，例如 TR001
        """
        number = request_id.strip().upper()
        if not number:
            return "请提供差旅申请编号，例如 TR001。"
        request = REQUESTS.get(number)
        if request is None:
            return f"没有找到差旅申请 {number}。现有的申请：{'、'.join(REQUESTS)}。"
        department = IN_CHINESE[request.department]
        if request.amount is None:
            return f"{number} 已驳回：超出预算。部门：{department}。"
        status = {"approved": "已批准", "pending": "待审批"}[request.status]
        return f"{number} {status}。金额：{request.amount}。部门：{department}。"

    @tool(read_only=True, idempotent=True, title="分析差旅预算")
    async def analyze_travel_budget(self, department: DepartmentInChinese | None = None) -> str:
        """分析差旅预算：已批准、待审批和已驳回的金额。

        Args:
            department: 只看这个部门；默认：全部部门
        """
        own = next((name for name, chinese in IN_CHINESE.items() if chinese == department), None)
        found = await self._budget.totals(own)
        rejected = "、".join(found.rejected) or "无"
        return (
            f"{department or '全部部门'}：已批准 {found.approved}，待审批 {found.pending}，超出预算被驳回：{rejected}。"
        )
