// The data as trees: spans, the rounds among them, and what is true of a span.

const KINDS = [
  ["agent", "agent"],
  ["advisor", "advisor"],
  ["chat", "model call"],
  ["tool", "tool call"],
  ["memory", "memory, retrieval"],
  ["mcp", "MCP"],
  ["other", "other"],
];
const RETRY_EVENTS = ["advisorchain.call_next", "advisorchain.retry"];

function kindOf(name, attributes) {
  const operation = attributes.get("gen_ai.operation.name");
  if (attributes.has("advisorchain.advisor.name")) return "advisor";
  if (operation === "invoke_agent" || operation === "create_agent" || operation === "invoke_workflow") return "agent";
  if (operation === "chat" || operation === "text_completion" || operation === "generate_content") return "chat";
  if (operation === "execute_tool" && !attributes.has("mcp.method.name")) return "tool";
  if (attributes.has("mcp.method.name")) return "mcp";
  if (operation === "retrieval" || operation === "embeddings") return "memory";
  if (typeof operation === "string" && operation.includes("memory")) return "memory";
  return "other";
}

class Span {
  constructor(row, index) {
    [this.parent, this.name, this.start, this.end, this.otelKind] = row;
    [this.status, this.statusText, this.scope, this.id] = row.slice(5, 9);
    this.attributes = new Map(row[9]);
    this.events = row[10].map(([name, time, pairs]) => ({ name, time, attributes: new Map(pairs) }));
    this.index = index;
    this.children = [];
    this.group = false;
    this.kind = kindOf(this.name, this.attributes);
    this.failed = this.status === "error";
    this.outcome = this.attributes.get("advisorchain.advisor.outcome");
    this.round = this.attributes.get("advisorchain.round");
    this.isLoop = this.attributes.get("advisorchain.tool_loop") === true;
    const [further, retries] = RETRY_EVENTS.map((name) => this.events.filter((event) => event.name === name).length);
    this.retries = Math.max(further, retries);
  }

  get errorType() {
    return this.attributes.get("error.type");
  }

  get shortCircuited() {
    return this.outcome === "short_circuited";
  }

  // An advisor that only passed the request on.
  get quiet() {
    return this.kind === "advisor" && !this.isLoop && !this.failed && this.events.length === 0
      && (this.outcome === "proceeded" || this.outcome === undefined);
  }

  // Input and output tokens; undefined where nobody said.
  get tokens() {
    const prefix = this.kind === "agent" ? "gen_ai.aggregated_usage." : "gen_ai.usage.";
    const [input, output] = ["input_tokens", "output_tokens"].map((name) => this.attributes.get(prefix + name));
    return input === undefined && output === undefined ? undefined : { input, output, cached: this.attributes.get(prefix + "cache_read.input_tokens") };
  }

  // Time in which no child ran.
  get own() {
    let [free, reached] = [0, this.start];
    for (const child of this.children.flatMap((each) => (each.group ? each.children : [each])).sort((a, b) => a.start - b.start)) {
      const [from, to] = [Math.min(child.start, this.last), Math.min(child.last, this.last)];
      free += Math.max(0, from - reached);
      reached = Math.max(reached, to);
    }
    return free + Math.max(0, this.last - reached);
  }
}

// A row that stands for the spans of one round.
class Round {
  constructor(number, parent, children) {
    this.group = true;
    this.kind = "round";
    this.name = `Round ${textOf(number)}`;
    this.round = number;
    this.parent = parent;
    this.children = children;
    this.events = [];
    this.retries = 0;
    this.start = children.reduce((least, child) => Math.min(least, child.start), Infinity);
    this.last = children.reduce((most, child) => Math.max(most, child.last), 0);
    this.failed = children.some((child) => child.failed);
  }
}

// One thing to choose from: the trees of a turn.
class Entry {
  constructor(raw) {
    this.trace = raw.trace;
    this.began = raw.began;
    this.spans = raw.spans.map((row, index) => new Span(row, index));
    this.length = 1;
    for (const span of this.spans) {
      this.length = span.events.reduce((most, event) => Math.max(most, event.time), Math.max(this.length, span.end ?? span.start));
    }
    this.roots = [];
    for (const span of this.spans) {
      span.open = span.end === null;
      span.last = Math.max(span.end ?? this.length, span.start);
      span.parent = this.spans[span.parent] ?? null;
      (span.parent ? span.parent.children : this.roots).push(span);
    }
    for (const span of this.spans) group(span);
    this.errors = this.spans.filter((span) => span.failed);
    this.agent = this.spans.find((span) => span.kind === "agent") ?? null;
  }

  get title() {
    const agent = this.agent?.attributes.get("gen_ai.agent.name");
    return agent ?? this.roots[0].name;
  }
}

// Rounds are told apart where they begin: below a span that is in none itself, or below a tool loop.
function group(span) {
  if (!span.isLoop && (span.round !== undefined || !span.children.some((child) => child.round !== undefined))) return;
  const kept = [];
  let current = [];
  const close = () => {
    if (current.length === 0) return;
    const round = new Round(current[0].round, span, current);
    for (const child of current) child.parent = round;
    kept.push(round);
    current = [];
  };
  for (const child of span.children) {
    if (child.round === undefined) {
      close();
      kept.push(child);
      continue;
    }
    if (current.length > 0 && current[0].round !== child.round) close();
    current.push(child);
  }
  close();
  span.children = kept;
}

function agentAround(node) {
  let found = node;
  while (found && found.kind !== "agent") found = found.parent;
  return found;
}

// The rows to show, parents first. `kept`: only these (all levels open); `quiet`: without quiet advisors.
function visibleRows(entry, { collapsed, kept, quiet }) {
  const rows = [];
  const waiting = [];
  const push = (nodes, level, parent) => {
    for (let index = nodes.length - 1; index >= 0; index -= 1) waiting.push([nodes[index], level, parent]);
  };
  push(entry.roots, 1, -1);
  while (waiting.length > 0) {
    const [node, level, parent] = waiting.pop();
    if (kept && !kept.has(node)) continue;
    const skipped = quiet && node.quiet;
    const isOpen = kept || !collapsed.has(node);
    if (!skipped) rows.push({ node, level, parent, isOpen });
    if (skipped) push(node.children, level, parent);
    else if (isOpen) push(node.children, level + 1, rows.length - 1);
  }
  return rows;
}

// The spans with the text in their name, and everything around them.
function matching(entry, text) {
  const wanted = text.toLowerCase();
  const hits = new Set();
  const kept = new Set();
  for (const span of entry.spans) {
    if (!span.name.toLowerCase().includes(wanted)) continue;
    hits.add(span);
    for (let node = span; node && !kept.has(node); node = node.parent) kept.add(node);
  }
  return { hits, kept };
}
