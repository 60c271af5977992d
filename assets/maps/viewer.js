// What one does with the page: choose a head, move, zoom, pin; and how it begins.

// --- looking

const look = () => {
  for (const { panel, caption, title } of views) {
    const head = panels.every((other) => headOf(other, state.map) === headOf(panel, state.map)) ? '' : `: ${headOf(panel, state.map)}`;
    title.textContent = `${panel.name}${head}`;
    title.title = title.textContent;
    caption.className = panel === pointed() ? 'pointed' : '';
  }
  draw();
  read();
  listRow();
  shadeText();
};

let waiting = false;
const soon = () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    look();
  });
};

const pointAt = (view) => {
  const at = views.indexOf(view);
  if (at === state.panel) return;
  state.panel = at;
  listMeasures();
  soon();
};

// Pins a row of the panel pointed at, or lets it go.
const pin = (query) => {
  state.pinned = pinnedIn(pointed()) === query ? null : { panel: pointed(), query };
  look();
};

// --- choosing a head

const choose = (at) => {
  if (panels.some((panel) => element(numbersId(panel, at)) === null)) {
    // The page is still arriving: the maps that are shown first stand before this script, the others behind it.
    document.addEventListener('DOMContentLoaded', () => choose(at), { once: true });
    return;
  }
  const shapes = () => panels.map(mapOf).map(({ queries, keys }) => `${queries} ${keys}`).join();
  const before = shapes();
  state.map = at;
  if (shapes() !== before) Object.assign(state, { cell: null, pinned: null, size: 0 });
  element('title').textContent = capital(named(at));
  for (const { panel, canvas } of views) {
    canvas.setAttribute('aria-label', `attention map of ${headOf(panel, at)}${several ? `, ${panel.name}` : ''}`);
  }
  fillHeads();
  element('layer').value = panels[0].maps[at].layer;
  element('head').value = at;
  listMeasures();
  for (const button of element('grid').children) button.setAttribute('aria-pressed', String(Number(button.dataset.map) === at));
  look();
};

const option = (value, text) => {
  const made = document.createElement('option');
  made.value = value;
  made.textContent = text;
  return made;
};

const headsOf = (layer) => [...panels[0].maps.keys()].filter((at) => String(panels[0].maps[at].layer) === String(layer));

const fillHeads = () => {
  const own = headsOf(panels[0].maps[state.map].layer);
  element('head').replaceChildren(...own.map((at) => option(at, panels[0].maps[at].head)));
};

// --- moving

const zoom = (factor, { plot }, x, y) => {
  const before = shared.size;
  const size = Math.min(40, before * factor);
  const most = (of) => Math.max(...panels.map((panel) => mapOf(panel)[of]));
  const column = plot.left + x / before;
  const row = plot.top + y / before;
  state.size = size <= shared.whole * 1.001 ? 0 : size;
  state.left = Math.min(most('keys'), Math.max(0, column - x / size));
  state.top = Math.min(most('queries'), Math.max(0, row - y / size));
  draw();
};

// Closer, or further away, around the cell that is looked at.
const zoomHere = (factor) => {
  const view = views[state.panel];
  const { plot } = view;
  const cell = cellIn(view.panel);
  if (cell === null) zoom(factor, view, plot.width / 2, plot.height / 2);
  else zoom(factor, view, (cell.key + 0.5 - plot.left) * shared.size, (cell.query + 0.5 - plot.top) * shared.size);
};

const whole = () => {
  state.size = 0;
  draw();
};

const cellAt = ({ panel, canvas, plot }, event) => {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left - shared.left;
  const y = event.clientY - box.top - shared.top;
  if (y < 0 || y >= plot.height || x >= plot.width) return null;
  // A click on the label of a query is one on its row.
  const key = x < 0 ? 0 : Math.floor(plot.left + x / shared.size);
  const query = Math.floor(plot.top + y / shared.size);
  const { queries, keys } = mapOf(panel);
  return key < keys && query < queries ? { query, key, x, y } : null;
};

let drag = null;

const listen = (view) => {
  const { canvas, plot } = view;
  canvas.addEventListener('focus', () => pointAt(view));
  canvas.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, y: event.clientY, left: plot.left, top: plot.top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    pointAt(view);
    if (drag && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4) drag.moved = true;
    if (drag && drag.moved && state.size) {
      state.left = drag.left - (event.clientX - drag.x) / shared.size;
      state.top = drag.top - (event.clientY - drag.y) / shared.size;
    }
    const cell = cellAt(view, event);
    state.cell = cell && { panel: view.panel, query: cell.query, key: cell.key };
    soon();
  });
  canvas.addEventListener('pointerup', (event) => {
    const cell = cellAt(view, event);
    if (cell && drag && !drag.moved) pin(cell.query);
    drag = null;
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const cell = cellAt(view, event);
    if (cell) zoom(event.deltaY < 0 ? 1.25 : 0.8, view, Math.max(0, cell.x), cell.y);
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => press(view, event));
};

const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const move = ({ panel, plot }, [down, right]) => {
  const { queries, keys } = mapOf(panel);
  const near = (value, most) => Math.min(most - 1, Math.max(0, value));
  const cell = cellIn(panel);
  const query = cell ? near(cell.query + down, queries) : pinnedIn(panel) ?? 0;
  const key = cell ? near(cell.key + right, keys) : 0;
  state.cell = { panel, query, key };
  const { size } = shared;
  state.left = Math.max(Math.min(plot.left, key), key + 1 - plot.width / size);
  state.top = Math.max(Math.min(plot.top, query), query + 1 - plot.height / size);
  look();
};

const press = (view, event) => {
  pointAt(view);
  if (moves[event.key]) move(view, moves[event.key]);
  else if ((event.key === 'Enter' || event.key === ' ') && cellIn(view.panel)) pin(cellIn(view.panel).query);
  else if (event.key === 'Escape') {
    state.pinned = null;
    look();
  } else if (event.key === 'PageDown' || event.key === 'PageUp') {
    choose((state.map + (event.key === 'PageDown' ? 1 : count - 1)) % count);
  } else if (event.key === '+' || event.key === '=') zoomHere(1.5);
  else if (event.key === '-') zoomHere(1 / 1.5);
  else if (event.key === '0') whole();
  else return;
  event.preventDefault();
};

element('closer').addEventListener('click', () => zoomHere(1.5));
element('further').addEventListener('click', () => zoomHere(1 / 1.5));
element('whole').addEventListener('click', whole);
element('layer').addEventListener('change', (event) => {
  const { head } = panels[0].maps[state.map];
  const own = headsOf(event.target.value);
  choose(own.find((at) => panels[0].maps[at].head === head) ?? own[0]);
});
element('head').addEventListener('change', (event) => choose(Number(event.target.value)));
element('scale').addEventListener('change', (event) => {
  state.scale = event.target.value;
  legend();
  grid();
  look();
});
element('sort').addEventListener('change', grid);

// --- the page

const begin = () => {
  element('source').textContent = merged((panel) => [panel.source]).map((sentence) => `${capital(sentence)}.`).join(' ');
  if (count === 0) return;
  const quantities = [...new Set(panels.map(({ quantity }) => quantity))];
  const around = element('panels');
  document.body.className = several ? 'several' : '';
  around.className = labelled ? '' : 'small';
  around.replaceChildren(...views.map(({ figure }) => figure));
  views.forEach(listen);
  element('quantity').textContent = capital(quantities.join(', '));
  element('scale').options[0].textContent = panels.some(({ signed }) => signed) ? 'fixed' : 'fixed, 0 to 1';
  element('notes').replaceChildren(...data.notes.map((note) => {
    const item = document.createElement('li');
    item.textContent = note;
    return item;
  }));
  element('notes-section').hidden = data.notes.length === 0;
  element('grid-section').hidden = count === 1;
  element('layer').replaceChildren(...[...new Set(panels[0].maps.map(({ layer }) => layer))].map((layer) => option(layer, layer)));
  element('sort').replaceChildren(option('', 'layer and head'), ...patterns.map(({ name, verb }) => option(name, `${name}: ${verb}`)));
  element('scale').value = state.scale;
  legend();
  grid();
  choose(data.first);
  new ResizeObserver(soon).observe(around);
  dark.addEventListener('change', () => {
    legend();
    grid();
    soon();
  });
};
begin();
