// Keys and clicks, and the first picture.

const KEYS = [
  ["↑ ↓", "previous, next span"],
  ["← →", "collapse or go out, expand or go in"],
  ["Home End", "first, last span"],
  ["PgUp PgDn", "a page up, down"],
  ["Enter", "show the details"],
  ["/", "filter by name; Enter goes to the next hit"],
  ["e", "next error"],
  ["a", "hide or show advisors that only passed the request on"],
  ["z", "zoom to the span; 0 shows everything again"],
  ["t", "colours: system, dark, light"],
  ["Esc", "close the details, clear the filter"],
  ["?", "this list"],
];

function treeKey(event) {
  const { selected } = view;
  const row = state.rows[selected];
  const page = Math.max(1, Math.floor(tree.clientHeight / ROW) - 1);
  const end = state.rows.length - 1;
  const actions = {
    ArrowDown: () => select(Math.min(selected + 1, end)),
    ArrowUp: () => select(Math.max(selected - 1, 0)),
    PageDown: () => select(Math.min(selected + page, end)),
    PageUp: () => select(Math.max(selected - page, 0)),
    Home: () => select(0),
    End: () => select(end),
    ArrowRight: () => {
      if (!row || row.node.children.length === 0) return;
      if (row.isOpen) select(selected + 1);
      else toggle(selected, true);
    },
    ArrowLeft: () => {
      if (!row) return;
      if (row.isOpen && row.node.children.length > 0 && !state.kept) toggle(selected, false);
      else select(row.parent);
    },
    Enter: () => select(selected, { open: true }),
    " ": () => select(selected, { open: true }),
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
}

function pageKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const writing = event.target === $("search");
  if (event.key === "Escape") {
    if (state.open && !writing) closeDetails();
    else {
      clearFilter();
      tree.focus();
    }
    event.preventDefault();
    return;
  }
  if (writing) return;
  const node = state.rows[view.selected]?.node;
  const actions = {
    "/": () => $("search").select(),
    e: nextError,
    a: toggleQuiet,
    t: nextTheme,
    z: () => node && zoom(node.start, node.last),
    0: () => zoom(0, state.entry.length),
    "?": showKeys,
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
}

function searchKey(event) {
  if (event.key === "Enter") nextHit();
  else if (event.key === "ArrowDown") tree.focus();
  else return;
  event.preventDefault();
}

function entryKey(event) {
  const at = entries.indexOf(state.entry);
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 };
  if (!Object.hasOwn(moves, event.key)) return;
  event.preventDefault();
  choose(entries[Math.min(Math.max(moves[event.key], 0), entries.length - 1)]);
}

function treeClick(event) {
  const element = event.target.closest(".row");
  if (!element) return;
  const index = Number(element.id.slice("row-".length));
  if (event.target.closest(".twist.open, .twist.closed") && !state.kept) {
    select(index, { reveal: false });
    toggle(index, !state.rows[index].isOpen);
  } else select(index, { open: true });
}

function start() {
  setTheme(storedTheme());
  tree.addEventListener("keydown", treeKey);
  tree.addEventListener("click", treeClick);
  tree.addEventListener("dblclick", (event) => {
    const node = event.target.closest(".cell-bars") && state.rows[view.selected]?.node;
    if (node) zoom(node.start, node.last);
  });
  let waiting = false;
  tree.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }, { passive: true });
  document.addEventListener("keydown", pageKey);
  $("search").addEventListener("input", () => filter($("search").value));
  $("search").addEventListener("keydown", searchKey);
  $("entries").addEventListener("keydown", entryKey);
  for (const [id, action] of [["errors", nextError], ["quiet", toggleQuiet], ["fold", foldAll], ["theme", nextTheme], ["help", showKeys]]) {
    $(id).addEventListener("click", action);
  }
  for (const [keys, meaning] of KEYS) {
    const names = make("dt");
    for (const key of keys.split(" ")) names.append(make("kbd", "", key), " ");
    $("keys-list").append(names, make("dd", "", meaning));
  }
  for (const [kind, meaning] of KINDS) {
    const item = make("li");
    item.append(make("i", `dot ${kind}`), meaning);
    $("legend").append(item);
  }
  new ResizeObserver(() => {
    drawAxis();
    refresh();
  }).observe(tree);
  listEntries();
  choose(entries[0]);
  tree.focus({ preventScroll: true });
}

start();
