"""Many tools of an office, among which the travel desk hides: every one of them real, none of them asked for."""

from __future__ import annotations

import zlib
from typing import Any

from ..tools.definition import Tool
from .demo_texts import Language

MOST = 2000
"""How many tools there can be, the desk's included."""

_ACTIONS = (
    ("create", "Create a new", "新建"), ("update", "Change an existing", "修改"), ("delete", "Delete a", "删除"),
    ("archive", "Archive a closed", "归档"), ("export", "Export as a spreadsheet a", "导出"),
    ("assign", "Assign to a colleague a", "分派"), ("duplicate", "Make a copy of a", "复制"),
    ("restore", "Bring back a deleted", "恢复"),
)  # fmt: skip
_THINGS = (
    ("invoice", "发票"), ("purchase_order", "采购订单"), ("supplier", "供应商"), ("contract", "合同"),
    ("customer", "客户"), ("lead", "销售线索"), ("quote", "报价单"), ("shipment", "发货单"), ("warehouse_slot", "库位"),
    ("product", "产品"), ("price_list", "价目表"), ("coupon", "优惠券"), ("ticket", "工单"), ("incident", "故障单"),
    ("deployment", "部署"), ("server", "服务器"), ("backup", "备份"), ("certificate", "证书"), ("employee", "员工档案"),
    ("vacancy", "职位"), ("interview", "面试"), ("payslip", "工资单"), ("leave_day", "休假"), ("training", "培训"),
    ("meeting", "会议"), ("meeting_room", "会议室"), ("reminder", "提醒"), ("document", "文档"), ("folder", "文件夹"),
    ("newsletter", "简报"), ("campaign", "营销活动"), ("survey", "问卷"), ("laptop", "笔记本电脑"),
    ("licence", "许可证"), ("key_card", "门禁卡"), ("visitor_pass", "访客证"),
)  # fmt: skip
_SYSTEMS = ("", "crm", "erp", "legacy", "emea", "apac", "sandbox")


def office_tools(count: int, language: Language) -> list[Tool]:
    """``count`` tools of an office in a mixed order, always the same; at most `MOST`."""
    templates = {thing: _template(thing, in_chinese, language) for thing, in_chinese in _THINGS}
    made: list[Tool] = []
    for system in _SYSTEMS:
        for thing, thing_in_chinese in _THINGS:
            for action, does, does_in_chinese in _ACTIONS:
                if len(made) == count:
                    return _mixed(made)
                name = "_".join(filter(None, (system, action, thing)))
                title = name.replace("_", " ")
                description = f"{does} {thing.replace('_', ' ')}{f' in {system.upper()}' if system else ''}."
                if language == "zh":
                    description = f"{does_in_chinese}{thing_in_chinese}{f'（{system.upper()}）' if system else ''}。"
                made.append(templates[thing].replace(name=name, title=title, description=description))
    return _mixed(made)


def _template(thing: str, thing_in_chinese: str, language: Language) -> Tool:
    """A tool that does something with a thing: made once, because a schema is checked when a tool is made."""
    number, note = f"The number of the {thing.replace('_', ' ')}", "What to note about it"
    if language == "zh":
        number, note = f"{thing_in_chinese}编号", "备注"
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "number": {"type": "string", "description": number},
            "note": {"type": "string", "description": note},
        },
        "required": ["number"],
    }
    return Tool.from_schema(thing, _noted, input_schema=schema, description=number)


async def _noted(arguments: dict[str, Any]) -> str:
    return f"OK: {arguments['number']}"


def _mixed(tools: list[Tool]) -> list[Tool]:
    return sorted(tools, key=lambda tool: zlib.crc32(tool.name.encode()))
