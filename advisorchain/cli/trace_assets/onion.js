// The chain of one agent from outside to inside: which advisors ran, how often, and how it ended.

const FLAT_FROM = 10; // rings this far inside are not narrowed any more

class Ring {
  constructor(span, place) {
    this.name = textOf(span.attributes.get("advisorchain.advisor.name"));
    this.order = span.attributes.get("advisorchain.advisor.order");
    this.type = span.attributes.get("advisorchain.advisor.type");
    this.isLoop = span.isLoop;
    this.rank = Number.isFinite(this.order) ? this.order : 0;
    this.place = place;
    this.spans = [];
  }
}

// The agent's own spans: not those of agents inside it. Rings are sorted by order; equal orders as they were met.
function chainOf(agent) {
  const rings = { chat: new Map(), tool: new Map() };
  const cores = { chat: new Map(), tool: new Map() };
  const waiting = [...agent.children].reverse();
  let place = 0;
  while (waiting.length > 0) {
    const node = waiting.pop();
    if (node.kind === "agent") continue;
    for (let index = node.children.length - 1; index >= 0; index -= 1) waiting.push(node.children[index]);
    if (node.kind === "advisor") {
      const side = node.attributes.get("advisorchain.advisor.wraps") === "tool" ? "tool" : "chat";
      const key = JSON.stringify([node.attributes.get("advisorchain.advisor.order"), node.attributes.get("advisorchain.advisor.name")]);
      if (!rings[side].has(key)) rings[side].set(key, new Ring(node, (place += 1)));
      rings[side].get(key).spans.push(node);
    } else if (node.kind === "chat") {
      add(cores.chat, node.attributes.get("gen_ai.request.model") ?? node.name, node);
    } else if (node.attributes?.get("gen_ai.operation.name") === "execute_tool") {
      add(cores.tool, node.attributes.get("gen_ai.tool.name") ?? node.name, node);
    }
  }
  const sorted = (side) => [...rings[side].values()].sort((a, b) => a.rank - b.rank || a.place - b.place);
  return { chat: sorted("chat"), tool: sorted("tool"), model: cores.chat, tools: cores.tool };
}

function add(cores, name, span) {
  const key = textOf(name);
  if (!cores.has(key)) cores.set(key, []);
  cores.get(key).push(span);
}

function badge(kind, text, title) {
  const made = make("span", `badge ${kind}`, text);
  if (title) made.title = title;
  return made;
}

function rounds(loop) {
  return loop.spans.reduce((sum, span) => sum + span.children.filter((child) => child.group).length, 0);
}

function ringElement(ring, depth, choose) {
  const box = make("div", `ring${ring.isLoop ? " loop" : ""}${depth > FLAT_FROM ? " flat" : ""}`);
  const head = make("button", "ring-head");
  head.type = "button";
  head.append(foreign("span", "ring-name", shownLine(ring.name, 80)));
  if (ring.isLoop) head.append(badge("loop", `↻ ${rounds(ring)}`, `the tool loop: went inside ${plural(rounds(ring), "time")}`));
  else if (ring.spans.length > 1) head.append(badge("times", `×${ring.spans.length}`, `ran ${ring.spans.length} times`));
  const short = ring.spans.filter((span) => span.shortCircuited).length;
  const retries = ring.spans.reduce((sum, span) => sum + span.retries, 0);
  const failed = ring.spans.filter((span) => span.failed || span.outcome === "error").length;
  if (short) head.append(badge("short", short > 1 ? `⤺ ${short}` : "⤺", "answered without going further inside"));
  if (retries) head.append(badge("retry", `⟳ ${retries}`, `called the rest of the chain again ${retries === 1 ? "once" : `${retries} times`}`));
  if (failed) head.append(badge("error", `✕ ${failed}`, `ended with an error ${failed === 1 ? "once" : `${failed} times`}`));
  head.append(make("span", "ring-order", ring.order === undefined ? "" : shownLine(ring.order, 12)));
  head.title = `${shownLine(ring.type ?? ring.name, 80)}: go to its ${ring.spans.length > 1 ? "next pass" : "span"}`;
  head.addEventListener("click", () => choose(ring.spans));
  box.append(head);
  return box;
}

function coreElement(kind, cores, empty, choose) {
  const box = make("div", `core ${kind}`);
  if (cores.size === 0) {
    box.classList.add("unreached");
    box.append(empty);
  }
  for (const [name, spans] of cores) {
    const head = make("button", "core-head");
    head.type = "button";
    head.append(make("i", `dot ${kind}`), foreign("span", "ring-name", shownLine(name, 80)));
    if (spans.length > 1) head.append(badge("times", `×${spans.length}`, `called ${spans.length} times`));
    const failed = spans.filter((span) => span.failed).length;
    if (failed) head.append(badge("error", `✕ ${failed}`, `failed ${failed === 1 ? "once" : `${failed} times`}`));
    head.title = `Go to its ${spans.length > 1 ? "next call" : "call"}`;
    head.addEventListener("click", () => choose(spans));
    box.append(head);
  }
  return box;
}

function showOnion(pane, agent, choose) {
  pane.replaceChildren();
  if (!agent) {
    pane.append(make("p", "quiet-text", "No turn of advisorchain is among these spans."));
    return;
  }
  const chain = chainOf(agent);
  const name = agent.attributes.get("gen_ai.agent.name") ?? agent.name;
  const outer = make("div", "ring agent");
  const head = make("button", "ring-head");
  head.type = "button";
  head.append(make("i", "dot agent"), foreign("span", "ring-name", shownLine(name, 80)));
  head.addEventListener("click", () => choose([agent]));
  outer.append(head);
  pane.append(outer);
  const nest = (box, rings, depth) => rings.reduce((around, ring, index) => {
    const inner = ringElement(ring, depth + index, choose);
    around.append(inner);
    return inner;
  }, box);
  const loop = chain.chat.findIndex((ring) => ring.isLoop);
  const tools = chain.tools.size > 0 || chain.tool.length > 0;
  const around = nest(outer, chain.chat.slice(0, loop + 1), 1);
  const both = loop >= 0 && tools ? make("div", "sides") : around;
  if (both !== around) around.append(both);
  nest(both, chain.chat.slice(loop + 1), loop + 2).append(coreElement("chat", chain.model, "no model was called", choose));
  if (tools) nest(loop >= 0 ? both : outer, chain.tool, loop + 2).append(coreElement("tool", chain.tools, "no tool ran", choose));
}
