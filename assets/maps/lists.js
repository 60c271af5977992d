// What is read beside the maps: the cell and the row that are looked at, the text, the measures, and the grid of heads.

const bold = (text) => {
  const made = document.createElement('b');
  made.textContent = text;
  return made;
};

// --- the cell

// The number of every panel, where there are too many of them for a sentence.
const tableOfNumbers = (cell) => {
  const table = document.createElement('span');
  table.className = 'values';
  table.append(...panels.map((panel) => {
    const line = document.createElement('span');
    line.append(panel.name, ' ', bold(numberText(panel, numberAt(panel, cell))));
    return line;
  }));
  return table;
};

const read = () => {
  const reading = element('reading');
  const { cell } = state;
  for (const { panel, value } of views) value.textContent = cell === null ? '' : numberText(panel, numberAt(panel, cell));
  if (cell === null) {
    reading.replaceChildren('Point at a cell.');
    return;
  }
  const own = pointed();
  // The tokens of the panel that the cell is one of.
  const { panel: of, query, key } = cell;
  const parts = ['query ', bold(queryToken(of, query)), ` (${query}) looks at key `, bold(keyToken(of, key)), ` (${key}): `];
  if (labelled) {
    panels.forEach((panel, at) => {
      parts.push(at > 0 ? ', ' : '', several ? `${panel.name} ` : '', bold(numberText(panel, numberAt(panel, cell))));
    });
  } else parts.push(tableOfNumbers(cell));
  const value = numberAt(own, cell);
  const before = labelled ? (several ? '; ' : ', ') : '';
  const whose = several ? `in ${own.name}: ` : '';
  if (value === MASKED) parts.push(`${before}${whose}the key is later than the query`);
  else if (state.scale === 'row' && Number.isFinite(value)) {
    parts.push(`${before}${whose}${plainText(own, value / divisor(own, cellIn(own).query))} of the row's largest`);
  }
  reading.replaceChildren(...parts);
};

// --- the row: the pinned one, else the one pointed at

const rowLooked = () => state.pinned ?? state.cell;

// The query of that row in the panel pointed at; null where there is none.
const queryLooked = () => (rowLooked() === null ? null : counterpart(pointed(), rowLooked()).query);

const rowNumbers = () => {
  const query = queryLooked();
  const { keys } = mapOf(pointed());
  return query === null ? null : numbers(pointed()).values.subarray(query * keys, (query + 1) * keys);
};

const listRow = () => {
  const panel = pointed();
  const looked = rowLooked();
  const query = queryLooked();
  const title = ['Row'];
  if (looked !== null) {
    const [of, at] = query === null ? [looked.panel, looked.query] : [panel, query];
    title.push(' of ', bold(queryToken(of, at)), ` (${at})${several ? ` in ${of.name}` : ''}`);
    if (state.pinned !== null) title.push(', pinned');
  }
  element('row-title').replaceChildren(...title);
  const row = rowNumbers();
  if (row === null) {
    element('row').replaceChildren(looked === null ? '' : `${panel.name} has no counterpart of it`);
    return;
  }
  const colours = theme();
  const size = (key) => (panel.signed ? Math.abs(row[key]) : row[key]);
  const order = [...row.keys()].filter((key) => row[key] !== MASKED).sort((one, other) => size(other) - size(one));
  element('row').replaceChildren(...order.slice(0, 8).map((key) => {
    const item = document.createElement('li');
    const name = document.createElement('span');
    const number = document.createElement('span');
    const bar = document.createElement('i');
    name.append(bold(keyToken(panel, key)), ` (${key})`);
    number.textContent = numberText(panel, row[key]);
    bar.style.width = `${100 * Math.min(1, Math.max(0, size(key) / divisor(panel, query)))}%`;
    if (panel.signed) bar.style.background = css(rampColour(colours, true, row[key] < 0 ? -0.8 : 0.8));
    item.append(name, number, bar);
    return item;
  }));
};

// --- the text

// Which text stands there.
let written = -1;

const writeText = () => {
  const panel = pointed();
  if (written === panel.text) return;
  written = panel.text;
  const { tokens, spaced } = data.texts[panel.text];
  element('text').className = spaced ? 'spaced' : '';
  element('text').replaceChildren(...tokens.map((token, at) => {
    const span = document.createElement('span');
    span.textContent = token;
    span.title = `token ${at}`;
    span.addEventListener('click', () => {
      const query = at - (tokens.length - mapOf(pointed()).queries);
      if (query >= 0) pin(query);
    });
    return span;
  }));
};

const shadeText = () => {
  writeText();
  const panel = pointed();
  const map = mapOf(panel);
  const query = queryLooked();
  const row = rowNumbers();
  const colours = theme();
  const spans = [...element('text').children];
  const offset = spans.length - map.keys;
  spans.forEach((span, at) => {
    const value = row && at >= offset ? row[at - offset] : MASKED;
    const shown = value === MASKED || Number.isNaN(value) ? null : value / divisor(panel, query);
    span.style.background = shown === null ? '' : css(rampColour(colours, panel.signed, shown));
    span.style.color = shown !== null && isStrong(panel.signed, shown) ? css(colours.ground) : '';
    span.className = query !== null && at === spans.length - map.queries + query ? 'pinned' : '';
  });
  element('text-rule').textContent =
    `${several ? `of ${panel.name}, ` : ''}shaded by the ${panel.quantities} of the row; click a token to pin its row`;
};

// --- the measures of the map

// More panels with measures than these have no columns of their own.
const MOST_COLUMNS = 3;

const measuredPanels = () => panels.filter((panel) => Object.keys(mapOf(panel).measures).length > 0);

const listMeasures = () => {
  const line = (cells, kind) => {
    const row = document.createElement('tr');
    cells.forEach((text, at) => {
      const cell = document.createElement(kind);
      cell.textContent = text;
      if (at > 0 && kind === 'td') cell.className = 'number';
      row.append(cell);
    });
    return row;
  };
  const number = (value) => (value === undefined || value === null ? '' : value.toFixed(2));
  const measured = measuredPanels();
  const beside = measured.length > 1 && measured.length <= MOST_COLUMNS;
  // The one that is told in full, where each has no column.
  const own = measured.includes(pointed()) ? pointed() : measured[measured.length - 1];
  const told = beside ? measured : measured.filter((panel) => panel === own);
  const known = patterns.filter(({ name }) => told.some((panel) => mapOf(panel).measures[name]));
  const head = beside ? ['score', ...told.map((panel) => panel.name)] : ['', 'score', 'equal', 'beside'];
  const lines = known.map(({ name }) => {
    if (beside) return [name, ...told.map((panel) => number(mapOf(panel).measures[name]?.score))];
    const found = mapOf(own).measures[name];
    return [name, number(found?.score), number(found?.uniform), number(found?.distractor)];
  });
  element('measures-title').textContent = several && own && !beside ? `This head in ${own.name}` : 'This head';
  element('measures').replaceChildren(...(known.length ? [line(head, 'th')] : []), ...lines.map((cells) => line(cells, 'td')));
};

// --- the grid of all heads

const grid = () => {
  const pattern = patterns.find(({ name }) => name === element('sort').value);
  const measured = (at) => pattern && panels[data.leading].maps[at].measures[pattern.name];
  const order = [...Array(count).keys()];
  if (pattern) {
    const worst = pattern.less ? Infinity : -Infinity;
    const sign = pattern.less ? 1 : -1;
    order.sort((one, other) => sign * ((measured(one)?.score ?? worst) - (measured(other)?.score ?? worst)));
  }
  element('sort-rule').textContent = several && pattern ? `in ${panels[data.leading].name}` : '';
  element('grid').replaceChildren(...order.map((at) => {
    const button = document.createElement('button');
    const pictures = document.createElement('span');
    const detail = document.createElement('small');
    pictures.className = 'pictures';
    pictures.append(...data.pictured.map((place) => {
      const picture = document.createElement('canvas');
      thumbnail(picture, panels[place], at);
      picture.title = panels[place].name;
      return picture;
    }));
    const own = measured(at);
    detail.textContent = own ? `${own.score.toFixed(2)} (equal ${own.uniform.toFixed(2)})` : '';
    button.append(pictures, named(at), ...(pattern ? [detail] : []));
    button.setAttribute('aria-pressed', String(at === state.map));
    button.addEventListener('click', () => {
      choose(at);
      scrollTo({ top: 0 });
    });
    button.dataset.map = at;
    return button;
  }));
};
