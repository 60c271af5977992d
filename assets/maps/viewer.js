'use strict';
(() => {
  const data = JSON.parse(document.getElementById('maps').textContent);
  const element = (id) => document.getElementById(id);
  const { tokens, maps, patterns } = data;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const theme = () => data.themes[dark.matches ? 'dark' : 'light'];
  const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
  // Below every weight, and the same in single precision.
  const MASKED = -Infinity;

  // Where one is looking: which map, the scale, the cell under the pointer or the arrow keys, the pinned query, and the
  // part that is shown, as the cell at the upper left and the size of a cell in pixels (0: all of the map).
  const state = { map: 0, scale: data.scale, cell: null, pinned: null, left: 0, top: 0, size: 0 };

  // --- the weights of a map, decoded when they are first looked at

  const bytes = (text) => {
    const binary = atob(text);
    const decoded = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at += 1) decoded[at] = binary.charCodeAt(at);
    return decoded;
  };

  let decoded = { at: -1 };
  const weights = () => {
    if (decoded.at === state.map) return decoded;
    const map = maps[state.map];
    const coded = bytes(element(`weights-${state.map}`).textContent);
    const codes = data.bits === 16 ? new Uint16Array(coded.buffer) : coded;
    const last = data.bits === 16 ? 65534 : 254;
    const values = new Float32Array(map.queries * map.keys).fill(MASKED);
    const largest = new Float32Array(map.queries);
    let from = 0;
    for (let query = 0; query < map.queries; query += 1) {
      const visible = map.causal ? Math.max(0, Math.min(map.keys, query + 1 + map.keys - map.queries)) : map.keys;
      for (let key = 0; key < visible; key += 1, from += 1) {
        const share = codes[from] / last;
        const value = share > 1 ? NaN : map.low + (map.high - map.low) * (data.bits === 16 ? share : share * share);
        values[query * map.keys + key] = value;
        if (value > largest[query]) largest[query] = value;
      }
    }
    decoded = { at: state.map, values, largest, pools: new Map() };
    return decoded;
  };

  // What a weight is divided by.
  const divisor = (query) => (state.scale === 'row' && weights().largest[query] > 0 ? weights().largest[query] : 1);

  // The largest scaled weight of each block of so many rows and columns, masked ones left out.
  const pooled = (by) => {
    const { values, pools } = weights();
    const name = `${by} ${state.scale}`;
    if (pools.has(name)) return pools.get(name);
    const map = maps[state.map];
    const columns = Math.ceil(map.keys / by);
    const cells = new Float32Array(Math.ceil(map.queries / by) * columns).fill(MASKED);
    for (let query = 0; query < map.queries; query += 1) {
      const scale = divisor(query);
      const row = Math.floor(query / by) * columns;
      for (let key = 0; key < map.keys; key += 1) {
        const value = values[query * map.keys + key];
        if (value === MASKED) continue;
        const cell = row + Math.floor(key / by);
        // A comparison with NaN is false: NaN stays once it is there.
        if (Number.isNaN(value) || value / scale > cells[cell]) cells[cell] = value / scale;
      }
    }
    pools.set(name, { cells, columns });
    return pools.get(name);
  };

  // --- colours

  const step = (value) => Math.round(255 * Math.min(1, Math.max(0, value)));
  const paint = (pixels, at, [red, green, blue]) => {
    pixels[at] = red;
    pixels[at + 1] = green;
    pixels[at + 2] = blue;
    pixels[at + 3] = 255;
  };
  const colourOf = (colours, value, diagonal) => {
    if (value === MASKED) return diagonal % 9 < 2 ? colours.hatch : colours.masked;
    return Number.isNaN(value) ? colours.nan : colours.ramp[step(value)];
  };

  // --- tokens: queries and keys are the last of the text

  const tokenAt = (length, at) => tokens[tokens.length - length + at] ?? `(${at})`;
  const queryToken = (query) => tokenAt(maps[state.map].queries, query);
  const keyToken = (key) => tokenAt(maps[state.map].keys, key);
  const cut = (label, length) => ([...label].length > length ? [...label].slice(0, length - 1).join('') + '…' : label);
  const decimals = () => (maps[state.map].precision > 1e-4 ? 2 : 4);

  // --- the map

  const canvas = element('map');
  let plot = { left: 0, top: 0, width: 1, height: 1, size: 1 };

  const layout = () => {
    const map = maps[state.map];
    const width = Math.max(280, canvas.clientWidth);
    const longest = (length, name) => {
      let most = 0;
      for (let at = 0; at < length; at += 1) most = Math.max(most, [...cut(name(at), 14)].length);
      return most * 7.3 + 12;
    };
    const left = Math.max(48, longest(map.queries, queryToken));
    const top = longest(map.keys, keyToken) + 18;
    const room = Math.min(width - left - 4, 900);
    const most = Math.min(room, Math.max(320, innerHeight - top - 150));
    const whole = Math.min(room / map.keys, most / map.queries, 40);
    const size = state.size || whole;
    const columns = Math.min(map.keys, room / size);
    const rows = Math.min(map.queries, most / size);
    state.left = Math.min(Math.max(0, state.left), map.keys - columns);
    state.top = Math.min(Math.max(0, state.top), map.queries - rows);
    plot = { left, top, width: columns * size, height: rows * size, size, whole, room, most };
    return width;
  };

  const draw = () => {
    const map = maps[state.map];
    const colours = theme();
    const width = layout();
    const { left, top, size } = plot;
    const density = Math.min(3, devicePixelRatio || 1);
    const height = top + plot.height + 4;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.fillStyle = css(colours.ground);
    context.fillRect(0, 0, canvas.width, canvas.height);

    const across = Math.max(1, Math.round(plot.width * density));
    const down = Math.max(1, Math.round(plot.height * density));
    const cell = size * density;
    const by = Math.max(1, Math.ceil(1 / cell - 1e-9));
    const { cells, columns } = pooled(by);
    const image = context.createImageData(across, down);
    const gap = size >= 12 ? density : 0;
    const places = (count, first, most) => {
      const list = new Int32Array(count);
      for (let pixel = 0; pixel < count; pixel += 1) {
        const at = (pixel + 0.5) / cell + first;
        const within = (at - Math.floor(at)) * cell;
        list[pixel] = gap && within > cell - gap ? -1 : Math.floor(Math.min(most - 1, at) / by);
      }
      return list;
    };
    const columnAt = places(across, state.left, map.keys);
    const rowAt = places(down, state.top, map.queries);
    for (let y = 0, at = 0; y < down; y += 1) {
      for (let x = 0; x < across; x += 1, at += 4) {
        const between = rowAt[y] < 0 || columnAt[x] < 0;
        const colour = between ? colours.ground : colourOf(colours, cells[rowAt[y] * columns + columnAt[x]], x + y);
        paint(image.data, at, colour);
      }
    }
    context.putImageData(image, Math.round(left * density), Math.round(top * density));

    context.scale(density, density);
    context.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, monospace';
    context.textBaseline = 'middle';
    const stride = Math.max(1, Math.ceil(14 / size));
    const bright = (chosen) => css(chosen ? colours.text : colours.faint);
    context.textAlign = 'right';
    const firstRow = Math.ceil(state.top / stride) * stride;
    for (let row = firstRow; row < Math.min(map.queries, state.top + plot.height / size); row += stride) {
      const y = top + (row - state.top + 0.5) * size;
      if (y > top + plot.height) break;
      context.fillStyle = bright(row === state.pinned || state.cell === null || row === state.cell.query);
      context.fillText(cut(queryToken(row), 14), left - 6, y);
    }
    context.textAlign = 'left';
    const firstColumn = Math.ceil(state.left / stride) * stride;
    for (let column = firstColumn; column < Math.min(map.keys, state.left + plot.width / size); column += stride) {
      const x = left + (column - state.left + 0.5) * size;
      if (x > left + plot.width) break;
      context.save();
      context.translate(x, top - 6);
      context.rotate(-Math.PI / 2);
      context.fillStyle = bright(state.cell === null || column === state.cell.key);
      context.fillText(cut(keyToken(column), 14), 0, 0);
      context.restore();
    }
    context.fillStyle = css(colours.faint);
    context.font = '12px system-ui, sans-serif';
    context.fillText('key', left, 8);
    context.textAlign = 'right';
    context.fillText('query', left - 6, top - 12);

    context.save();
    context.beginPath();
    context.rect(left - 2, top - 2, plot.width + 4, plot.height + 4);
    context.clip();
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--mark');
    context.lineWidth = 2;
    const outline = (column, row, columnsWide) => {
      const x = left + (column - state.left) * size;
      const y = top + (row - state.top) * size;
      context.strokeRect(x - 1, y - 1, Math.max(3, columnsWide * size) + (gap ? 1 : 2), Math.max(3, size) + (gap ? 1 : 2));
    };
    if (state.pinned !== null) outline(0, state.pinned, map.keys);
    if (state.cell !== null) outline(state.cell.key, state.cell.query, 1);
    context.restore();

    const rule = [data.scales[state.scale]];
    if (by > 1) rule.push(`each dot shows the largest of ${by} x ${by} weights`);
    if (data.beyond && state.scale === 'fixed') rule.push(data.beyond);
    if (maps[state.map].precision > 1e-4) rule.push(`weights in this page are exact to ${maps[state.map].precision.toFixed(3)}`);
    element('rule').textContent = `${rule.join('; ')}.`;
  };

  // --- what is read

  const bold = (text) => {
    const made = document.createElement('b');
    made.textContent = text;
    return made;
  };
  const weightText = (value) => {
    if (value === MASKED) return 'masked';
    return Number.isNaN(value) ? 'NaN' : value.toFixed(decimals());
  };

  const read = () => {
    const map = maps[state.map];
    const reading = element('reading');
    if (state.cell === null) {
      reading.replaceChildren('Point at a cell.');
      return;
    }
    const { query, key } = state.cell;
    const value = weights().values[query * map.keys + key];
    const parts = ['query ', bold(queryToken(query)), ` (${query}) looks at key `, bold(keyToken(key)), ` (${key}): `];
    parts.push(bold(weightText(value)));
    if (value === MASKED) parts.push(', the key is later than the query');
    else if (state.scale === 'row') parts.push(`, ${weightText(value / divisor(query))} of the row's largest`);
    reading.replaceChildren(...parts);
  };

  // The row that is listed: the pinned one, else the one pointed at.
  const rowLooked = () => state.pinned ?? (state.cell && state.cell.query);

  const listRow = () => {
    const map = maps[state.map];
    const query = rowLooked();
    const list = element('row');
    element('row-title').replaceChildren(query === null ? 'Row' : 'Row of ', query === null ? '' : bold(queryToken(query)),
      query === null ? '' : ` (${query})${state.pinned === null ? '' : ', pinned'}`);
    const strip = element('text');
    const offset = tokens.length - map.keys;
    const colours = theme();
    const row = query === null ? null : weights().values.subarray(query * map.keys, (query + 1) * map.keys);
    [...strip.children].forEach((span, at) => {
      const value = row && at >= offset ? row[at - offset] : MASKED;
      const shown = value === MASKED || Number.isNaN(value) ? null : value / divisor(query);
      span.style.background = shown === null ? '' : css(colours.ramp[step(shown)]);
      span.style.color = shown !== null && shown > 0.5 ? css(colours.ground) : '';
      span.className = query !== null && at === tokens.length - map.queries + query ? 'pinned' : '';
    });
    if (row === null) {
      list.replaceChildren();
      return;
    }
    const order = [...row.keys()].filter((key) => row[key] !== MASKED).sort((one, other) => row[other] - row[one]);
    list.replaceChildren(...order.slice(0, 8).map((key) => {
      const item = document.createElement('li');
      const name = document.createElement('span');
      const number = document.createElement('span');
      const bar = document.createElement('i');
      name.append(bold(keyToken(key)), ` (${key})`);
      number.textContent = weightText(row[key]);
      bar.style.width = `${100 * Math.min(1, Math.max(0, row[key] / divisor(query)))}%`;
      item.append(name, number, bar);
      return item;
    }));
  };

  const listMeasures = () => {
    const table = element('measures');
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
    const own = maps[state.map].measures;
    const known = patterns.filter(({ name }) => own[name]);
    const number = (value) => (value === null ? '' : value.toFixed(2));
    table.replaceChildren(...(known.length ? [line(['', 'score', 'equal', 'beside'], 'th')] : []), ...known.map(({ name }) =>
      line([name, number(own[name].score), number(own[name].uniform), number(own[name].distractor)], 'td')));
  };

  // --- the grid of all heads

  const thumbnail = (target, map) => {
    const { rows, columns, cells } = map[state.scale];
    const codes = bytes(cells);
    const colours = theme();
    target.width = columns;
    target.height = rows;
    const context = target.getContext('2d');
    const image = context.createImageData(columns, rows);
    codes.forEach((code, at) => {
      const value = code === 255 ? MASKED : code === 254 ? NaN : code / 253;
      // A dot of a thumbnail is too large for hatching.
      paint(image.data, 4 * at, colourOf(colours, value, 8));
    });
    context.putImageData(image, 0, 0);
  };

  const grid = () => {
    const pattern = patterns.find(({ name }) => name === element('sort').value);
    const score = (at) => (pattern && maps[at].measures[pattern.name] ? maps[at].measures[pattern.name].score : null);
    const order = [...maps.keys()];
    if (pattern) {
      const worst = pattern.less ? Infinity : -Infinity;
      const sign = pattern.less ? 1 : -1;
      order.sort((one, other) => sign * ((score(one) ?? worst) - (score(other) ?? worst)));
    }
    element('grid').replaceChildren(...order.map((at) => {
      const button = document.createElement('button');
      const picture = document.createElement('canvas');
      const detail = document.createElement('small');
      thumbnail(picture, maps[at]);
      const own = pattern && maps[at].measures[pattern.name];
      detail.textContent = own ? `${own.score.toFixed(2)} (equal ${own.uniform.toFixed(2)})` : '';
      button.append(picture, named(at), ...(pattern ? [detail] : []));
      button.setAttribute('aria-pressed', String(at === state.map));
      button.addEventListener('click', () => {
        choose(at);
        scrollTo({ top: 0 });
      });
      button.dataset.map = at;
      return button;
    }));
  };

  const named = (at) => `layer ${maps[at].layer}, head ${maps[at].head}`;

  // --- choices

  const look = () => {
    draw();
    read();
    listRow();
  };

  const choose = (at) => {
    if (element(`weights-${at}`) === null) {
      // The page is still arriving: the map that is shown first stands before this script, the others behind it.
      document.addEventListener('DOMContentLoaded', () => choose(at), { once: true });
      return;
    }
    const before = maps[state.map];
    state.map = at;
    const map = maps[at];
    if (map.queries !== before.queries || map.keys !== before.keys) Object.assign(state, { cell: null, pinned: null, size: 0 });
    element('title').textContent = `${named(at)[0].toUpperCase()}${named(at).slice(1)}`;
    canvas.setAttribute('aria-label', `attention map of ${named(at)}`);
    fillHeads();
    element('layer').value = map.layer;
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

  const fillHeads = () => {
    const { layer } = maps[state.map];
    const own = [...maps.keys()].filter((at) => maps[at].layer === layer);
    element('head').replaceChildren(...own.map((at) => option(at, maps[at].head)));
  };

  const zoom = (factor, x, y) => {
    const map = maps[state.map];
    const before = plot.size;
    const size = Math.min(40, before * factor);
    const column = state.left + x / before;
    const row = state.top + y / before;
    state.size = size <= plot.whole * 1.001 ? 0 : size;
    state.left = Math.min(map.keys, Math.max(0, column - x / size));
    state.top = Math.min(map.queries, Math.max(0, row - y / size));
    draw();
  };

  const centre = () => {
    if (state.cell === null) return [plot.width / 2, plot.height / 2];
    return [(state.cell.key + 0.5 - state.left) * plot.size, (state.cell.query + 0.5 - state.top) * plot.size];
  };

  const cellAt = (event) => {
    const map = maps[state.map];
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left - plot.left;
    const y = event.clientY - box.top - plot.top;
    if (y < 0 || y >= plot.height || x >= plot.width) return null;
    // A click on the label of a query is one on its row.
    const key = x < 0 ? 0 : Math.floor(state.left + x / plot.size);
    const query = Math.floor(state.top + y / plot.size);
    return key < map.keys && query < map.queries ? { query, key, x, y } : null;
  };

  const pin = (query) => {
    state.pinned = state.pinned === query ? null : query;
    look();
  };

  let drag = null;
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      look();
    });
  };
  canvas.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, y: event.clientY, left: state.left, top: state.top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (drag && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4) drag.moved = true;
    if (drag && drag.moved && state.size) {
      state.left = drag.left - (event.clientX - drag.x) / plot.size;
      state.top = drag.top - (event.clientY - drag.y) / plot.size;
    }
    const cell = cellAt(event);
    state.cell = cell && { query: cell.query, key: cell.key };
    soon();
  });
  canvas.addEventListener('pointerup', (event) => {
    const cell = cellAt(event);
    if (cell && drag && !drag.moved) pin(cell.query);
    drag = null;
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const cell = cellAt(event);
    if (cell) zoom(event.deltaY < 0 ? 1.25 : 0.8, Math.max(0, cell.x), cell.y);
  }, { passive: false });

  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener('keydown', (event) => {
    const map = maps[state.map];
    const near = (value, most) => Math.min(most - 1, Math.max(0, value));
    if (moves[event.key]) {
      const [down, right] = state.cell === null ? [0, 0] : moves[event.key];
      const from = state.cell ?? { query: state.pinned ?? 0, key: 0 };
      const query = near(from.query + down, map.queries);
      const key = near(from.key + right, map.keys);
      state.cell = { query, key };
      if (key < state.left) state.left = key;
      if (query < state.top) state.top = query;
      state.left = Math.max(state.left, key + 1 - plot.width / plot.size);
      state.top = Math.max(state.top, query + 1 - plot.height / plot.size);
      look();
    } else if ((event.key === 'Enter' || event.key === ' ') && state.cell) pin(state.cell.query);
    else if (event.key === 'Escape') {
      state.pinned = null;
      look();
    } else if (event.key === 'PageDown' || event.key === 'PageUp') {
      choose((state.map + (event.key === 'PageDown' ? 1 : maps.length - 1)) % maps.length);
    } else if (event.key === '+' || event.key === '=') zoom(1.5, ...centre());
    else if (event.key === '-') zoom(1 / 1.5, ...centre());
    else if (event.key === '0') whole();
    else return;
    event.preventDefault();
  });

  const whole = () => {
    state.size = 0;
    draw();
  };
  element('closer').addEventListener('click', () => zoom(1.5, ...centre()));
  element('further').addEventListener('click', () => zoom(1 / 1.5, ...centre()));
  element('whole').addEventListener('click', whole);
  element('layer').addEventListener('change', (event) => {
    const { head } = maps[state.map];
    const own = [...maps.keys()].filter((at) => String(maps[at].layer) === event.target.value);
    choose(own.find((at) => maps[at].head === head) ?? own[0]);
  });
  element('head').addEventListener('change', (event) => choose(Number(event.target.value)));
  element('scale').addEventListener('change', (event) => {
    state.scale = event.target.value;
    grid();
    look();
  });
  element('sort').addEventListener('change', grid);

  // --- the page

  const ramps = () => {
    const colours = theme();
    const ramp = element('ramp').getContext('2d');
    const image = ramp.createImageData(256, 1);
    colours.ramp.forEach((colour, at) => paint(image.data, 4 * at, colour));
    ramp.putImageData(image, 0, 0);
    const sample = element('masked').getContext('2d');
    const pixels = sample.createImageData(14, 14);
    for (let at = 0; at < 196; at += 1) {
      paint(pixels.data, 4 * at, colourOf(colours, MASKED, (at % 14) + Math.floor(at / 14)));
    }
    sample.putImageData(pixels, 0, 0);
  };

  const begin = () => {
    element('source').textContent = `${data.source[0].toUpperCase()}${data.source.slice(1)}.`;
    if (maps.length === 0) return;
    element('text').className = data.spaced ? 'spaced' : '';
    element('text').replaceChildren(...tokens.map((token, at) => {
      const span = document.createElement('span');
      span.textContent = token;
      span.title = `token ${at}`;
      span.addEventListener('click', () => {
        const query = at - (tokens.length - maps[state.map].queries);
        if (query >= 0) pin(query);
      });
      return span;
    }));
    element('text-rule').textContent = 'shaded by the weights of the row; click a token to pin its row';
    element('notes').replaceChildren(...data.notes.map((note) => {
      const item = document.createElement('li');
      item.textContent = note;
      return item;
    }));
    element('notes-section').hidden = data.notes.length === 0;
    element('grid-section').hidden = maps.length === 1;
    element('layer').replaceChildren(...[...new Set(maps.map(({ layer }) => layer))].map((layer) => option(layer, layer)));
    element('sort').replaceChildren(option('', 'layer and head'), ...patterns.map(({ name, verb }) => option(name, `${name}: ${verb}`)));
    element('scale').value = state.scale;
    ramps();
    grid();
    choose(data.first);
    new ResizeObserver(soon).observe(canvas.parentElement);
    dark.addEventListener('change', () => {
      ramps();
      grid();
      soon();
    });
  };
  begin();
})();
