// Everything about one span.

const CONTENT = ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"];
const JSON_TEXTS = [
  ["gen_ai.tool.call.arguments", "Arguments"],
  ["gen_ai.tool.call.result", "Result"],
  ["gen_ai.tool.definitions", "Tools offered"],
  ["gen_ai.memory.query.text", "Query"],
  ["gen_ai.memory.records", "Records"],
  ["gen_ai.retrieval.query.text", "Query"],
  ["gen_ai.retrieval.documents", "Documents"],
];
const SHOWN_ABOVE = new Set([...CONTENT, ...JSON_TEXTS.map(([name]) => name)]);

function part(pane, heading) {
  const section = make("section");
  section.append(make("h3", "", heading));
  pane.append(section);
  return section;
}

function pairList(pairs) {
  const list = make("dl", "pairs");
  for (const [name, value] of pairs) {
    const label = foreign("dt", "", shownLine(name, 200));
    const cell = make("dd", typeof value === "number" ? "number" : typeof value === "boolean" ? "truth" : "");
    const text = Array.isArray(value) && value.every((item) => typeof item !== "object") ? value.map(String).join(", ") : pretty(value);
    cell.append(textBlock("", text));
    list.append(label, cell);
  }
  return list;
}

function fact(list, label, value, className = "") {
  const item = make("div", className);
  item.append(make("dt", "", label), foreign("dd", "", value));
  list.append(item);
}

function facts(span, entry) {
  const list = make("dl", "facts");
  fact(list, "Duration", span.open ? "not over" : duration(span.last - span.start));
  if (!span.group && span.children.length > 0) fact(list, "Own time", duration(span.own));
  fact(list, "Begins at", `+${duration(span.start)}`);
  if (span.group) {
    fact(list, "Spans", String(span.children.length));
    return list;
  }
  const ended = { unset: "ended well", ok: "ok", error: "error" }[span.status] ?? span.status;
  fact(list, "Status", shownLine(span.errorType !== undefined ? `${ended}: ${textOf(span.errorType)}` : ended), span.failed ? "failed" : "");
  if (span.outcome !== undefined) fact(list, "Outcome", shownLine(textOf(span.outcome).replaceAll("_", " ")));
  const { tokens } = span;
  if (tokens) {
    const cached = tokens.cached ? ` (${count(tokens.cached)} cached)` : "";
    fact(list, "Tokens", `${count(tokens.input ?? NaN)} in${cached}, ${count(tokens.output ?? NaN)} out`);
  }
  if (span === entry.agent) fact(list, "Began", clock(entry.began + span.start / 1e6));
  return list;
}

function showDetails(pane, span, entry, close) {
  pane.replaceChildren();
  const head = make("div", "details-head");
  const names = make("div");
  const kind = span.group ? "round" : KINDS.find(([key]) => key === span.kind)[1];
  const label = make("div", "kind-line");
  label.append(make("i", `dot ${span.kind}`), kind);
  if (!span.group && span.otelKind !== "internal") label.append(` · ${span.otelKind}`);
  names.append(label, foreign("h2", "", shownLine(span.name)));
  const button = make("button", "round", "×");
  button.type = "button";
  button.title = "Close (Esc)";
  button.setAttribute("aria-label", "Close the details");
  button.addEventListener("click", close);
  head.append(names, button);
  pane.append(head, facts(span, entry));
  if (span.group) return;
  if (span.statusText) part(pane, "Error text").append(textBlock("said error-text", span.statusText));
  const said = conversation(span);
  if (said) part(pane, "Conversation").append(said);
  for (const [name, heading] of JSON_TEXTS) {
    if (!span.attributes.has(name)) continue;
    const raw = span.attributes.get(name);
    part(pane, heading).append(textBlock("said value", pretty(parsed(raw) ?? raw)));
  }
  if (span.events.length > 0) {
    const section = part(pane, "Events");
    for (const event of span.events) {
      const box = make("div", "event");
      const line = make("div", "event-head");
      line.append(foreign("strong", "", shownLine(event.name)), make("span", "quiet-text", `+${duration(event.time)}`));
      box.append(line, pairList(event.attributes));
      section.append(box);
    }
  }
  const rest = [...span.attributes].filter(([name]) => !SHOWN_ABOVE.has(name));
  if (rest.length > 0) part(pane, "Attributes").append(pairList(rest.sort(([a], [b]) => (a < b ? -1 : 1))));
  const ids = [["span id", span.id], ["trace id", entry.trace], ["start", moment(entry.began + span.start / 1e6)]];
  if (span.scope) ids.push(["made by", span.scope]);
  part(pane, "Identity").append(pairList(ids));
}
