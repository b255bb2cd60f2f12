// The page: what is chosen, shown, selected, and which key does what.

const ROW = 28; // pixels, as in the style
const BEYOND = 8; // rows made above and below what is seen

const data = JSON.parse(document.getElementById("data").textContent);
const entries = data.entries.map((raw) => new Entry(raw));
const $ = (id) => document.getElementById(id);
const tree = $("tree");

const view = { height: ROW, selected: -1, hits: null, window: [0, 1] };
const state = { entry: null, rows: [], collapsed: new Set(), kept: null, quiet: false, open: false, agent: undefined, chosen: null };
let drawn = [-1, -1];

function refresh() {
  drawn = [-1, -1];
  draw();
}

function draw() {
  const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - BEYOND);
  const last = Math.min(state.rows.length, Math.ceil((tree.scrollTop + tree.clientHeight) / ROW) + BEYOND);
  if (first === drawn[0] && last === drawn[1]) return;
  const [from, to] = drawn;
  drawn = [first, last];
  const box = $("rows");
  const built = (begin, end) => state.rows.slice(begin, end).map((row, index) => rowElement(row, begin + index, view));
  if (first >= to || last <= from) box.replaceChildren(...built(first, last));
  else {
    // Most of what is seen was there before.
    for (let index = from; index < first; index += 1) box.firstChild.remove();
    for (let index = last; index < to; index += 1) box.lastChild.remove();
    box.prepend(...built(first, from));
    box.append(...built(to, last));
  }
  if (view.selected >= 0) tree.setAttribute("aria-activedescendant", `row-${view.selected}`);
  else tree.removeAttribute("aria-activedescendant");
}

function layOut() {
  const node = state.rows[view.selected]?.node;
  state.rows = visibleRows(state.entry, state);
  view.selected = -1;
  // What is selected may be folded away: then what it is in.
  for (let around = node; around && view.selected < 0; around = around.parent) view.selected = state.rows.findIndex((row) => row.node === around);
  if (view.selected < 0 && state.rows.length > 0) view.selected = 0;
  $("canvas").style.height = `${state.rows.length * ROW}px`;
  tree.setAttribute("aria-rowcount", String(state.rows.length));
  $("nothing").hidden = state.rows.length > 0;
  refresh();
  follow();
}

function drawAxis() {
  showAxis($("axis"), $("grid"), view.window, $("axis").clientWidth);
}

function zoom(low, high) {
  view.window = [low, Math.max(high, low + 1)];
  drawAxis();
  refresh();
}

// The onion and the details are those of the selected row.
function follow() {
  const node = state.rows[view.selected]?.node ?? null;
  const agent = agentAround(node) ?? state.entry.agent;
  if (agent !== state.agent) {
    state.agent = agent;
    showOnion($("onion"), agent, cycle);
  }
  const pane = $("details");
  pane.hidden = !(state.open && node);
  $("main").classList.toggle("with-details", !pane.hidden);
  if (!pane.hidden && pane.shown !== node) showDetails(pane, node, state.entry, closeDetails);
  pane.shown = pane.hidden ? null : node;
}

function select(index, { open = state.open, reveal = true } = {}) {
  if (index < 0 || index >= state.rows.length) return;
  const wasOpen = state.open;
  view.selected = index;
  state.open = open;
  follow();
  if (wasOpen !== open) drawAxis();
  if (reveal) {
    const top = index * ROW;
    if (top < tree.scrollTop) tree.scrollTop = top;
    else if (top + ROW > tree.scrollTop + tree.clientHeight) tree.scrollTop = top + ROW - tree.clientHeight;
  }
  refresh();
}

// Go to a span wherever it is: open what it is folded into, and let go of a filter that hides it.
function goTo(span, open = state.open) {
  if (state.kept && !state.kept.has(span)) clearFilter();
  if (span.quiet && state.quiet) toggleQuiet();
  for (let node = span.parent; node; node = node.parent) state.collapsed.delete(node);
  layOut();
  const index = state.rows.findIndex((row) => row.node === span);
  tree.scrollTop = Math.max(0, index * ROW - tree.clientHeight / 2);
  select(index, { open });
}

// The first of the spans, or the one after the selected one.
function cycle(spans) {
  const at = spans.indexOf(state.rows[view.selected]?.node);
  goTo(spans[(at + 1) % spans.length]);
}

function nextError() {
  const errors = state.entry.errors;
  if (errors.length === 0) return;
  const current = state.rows[view.selected]?.node.index ?? -1;
  goTo(errors.find((span) => span.index > current) ?? errors[0], true);
}

function closeDetails() {
  select(view.selected, { open: false });
  tree.focus();
}

function toggle(index, isOpen) {
  const row = state.rows[index];
  if (!row || row.node.children.length === 0 || state.kept || row.isOpen === isOpen) return;
  if (row.isOpen) state.collapsed.add(row.node);
  else state.collapsed.delete(row.node);
  layOut();
}

function foldAll() {
  const fold = state.collapsed.size === 0;
  state.collapsed.clear();
  if (fold) {
    const waiting = [...state.entry.roots];
    while (waiting.length > 0) {
      const node = waiting.pop();
      if (node.children.length > 0) state.collapsed.add(node);
      for (const child of node.children) waiting.push(child);
    }
    // The ends of the trunk stay open, so that something is seen: down to the first fork.
    for (let trunk = state.entry.roots; trunk.length === 1; trunk = trunk[0].children) state.collapsed.delete(trunk[0]);
  }
  $("fold").textContent = fold ? "Expand all" : "Collapse all";
  layOut();
}

function toggleQuiet() {
  state.quiet = !state.quiet;
  $("quiet").setAttribute("aria-pressed", String(state.quiet));
  layOut();
}

function filter(text) {
  const wanted = text.trim();
  if (wanted === "") {
    view.hits = null;
    state.kept = null;
    $("found").textContent = "";
  } else {
    const { hits, kept } = matching(state.entry, wanted);
    view.hits = hits;
    state.kept = kept;
    $("found").textContent = String(hits.size);
    $("found").title = plural(hits.size, "span");
  }
  layOut();
}

function clearFilter() {
  $("search").value = "";
  filter("");
}

function nextHit() {
  if (!view.hits || view.hits.size === 0) return;
  const hit = (row) => view.hits.has(row.node);
  const after = state.rows.findIndex((row, index) => index > view.selected && hit(row));
  select(after >= 0 ? after : state.rows.findIndex(hit));
}

function figures() {
  const { entry } = state;
  const list = $("figures");
  list.replaceChildren();
  const put = (value, label, className = "") => {
    const item = make("li", className);
    item.append(make("strong", "", value), ` ${label}`);
    list.append(item);
  };
  const attribute = (name) => entry.agent?.attributes.get(name);
  const number = (name) => (Number.isFinite(attribute(name)) ? attribute(name) : undefined);
  put(duration(entry.length), "");
  const chats = number("advisorchain.model_calls") ?? entry.spans.filter((span) => span.kind === "chat").length;
  const tools = number("advisorchain.tool_calls");
  const rounds = number("advisorchain.rounds");
  if (rounds !== undefined) put(count(rounds), rounds === 1 ? "round" : "rounds");
  if (chats) put(count(chats), chats === 1 ? "model call" : "model calls");
  if (tools !== undefined) put(count(tools), tools === 1 ? "tool call" : "tool calls");
  const tokens = entry.agent?.tokens;
  if (tokens) put(`${count(tokens.input ?? NaN)} → ${count(tokens.output ?? NaN)}`, "tokens");
  put(count(entry.spans.length), entry.spans.length === 1 ? "span" : "spans");
  if (attribute("advisorchain.stop_reason") !== undefined) put(shownLine(attribute("advisorchain.stop_reason"), 40).replaceAll("_", " "), "", "reason");
  const button = $("errors");
  button.hidden = entry.errors.length === 0;
  button.textContent = `✕ ${plural(entry.errors.length, "error")}`;
}

function question(entry) {
  const messages = parsed(entry.agent?.attributes.get("gen_ai.input.messages"));
  if (!Array.isArray(messages)) return "";
  const asked = messages.findLast((message) => message?.role === "user");
  const text = Array.isArray(asked?.parts) ? asked.parts.find((each) => each?.type === "text")?.content : "";
  return typeof text === "string" ? text : "";
}

function listEntries() {
  $("chooser").hidden = entries.length < 2;
  if (entries.length < 2) return;
  $("entries").replaceChildren(...entries.map((entry, index) => {
    const item = make("div", entry.agent ? "entry" : "entry no-turn");
    item.id = `entry-${index}`;
    item.setAttribute("role", "option");
    const line = make("div", "entry-line");
    line.append(foreign("span", "entry-title", shownLine(question(entry) || entry.title, 120)));
    if (entry.errors.length > 0) line.append(badge("error", `✕ ${entry.errors.length}`, plural(entry.errors.length, "error")));
    item.append(line, make("div", "quiet-text", `${clock(entry.began)} · ${duration(entry.length)} · ${plural(entry.spans.length, "span")}`));
    item.addEventListener("click", () => choose(entry));
    return item;
  }));
}

function choose(entry) {
  const before = entries.indexOf(state.entry);
  const index = entries.indexOf(entry);
  if (entry === undefined || entry === state.entry) return;
  Object.assign(state, { entry, rows: [], kept: null, agent: undefined });
  state.collapsed.clear();
  view.selected = -1;
  $("title").textContent = shownLine(entry.title, 120);
  $("fold").textContent = "Collapse all";
  view.window = [0, entry.length];
  figures();
  $(`entry-${before}`)?.setAttribute("aria-selected", "false");
  const chosen = $(`entry-${index}`);
  chosen?.setAttribute("aria-selected", "true");
  chosen?.scrollIntoView({ block: "nearest" });
  $("entries").setAttribute("aria-activedescendant", `entry-${index}`);
  tree.scrollTop = 0;
  drawAxis();
  filter($("search").value);
}

const THEMES = { auto: ["◐", "light and dark as the system has it"], light: ["☀", "light"], dark: ["☾", "dark"] };

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const [sign, label] = THEMES[name];
  $("theme").textContent = sign;
  $("theme").title = `Colours: ${label} (t)`;
  $("theme").setAttribute("aria-label", `Colours: ${label}`);
}

function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  const name = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
  setTheme(name);
  try {
    localStorage.setItem("advisorchain.theme", name);
  } catch {
    // a page from disk may have no storage
  }
}

function storedTheme() {
  try {
    const name = localStorage.getItem("advisorchain.theme");
    return Object.hasOwn(THEMES, name ?? "") ? name : "auto";
  } catch {
    return "auto";
  }
}

function showKeys() {
  if (!$("keys").open) $("keys").showModal();
}
