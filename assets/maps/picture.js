// Colours, and the map of one panel on its canvas.

const dark = matchMedia('(prefers-color-scheme: dark)');
const theme = () => data.themes[dark.matches ? 'dark' : 'light'];
const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// More maps than these are small, and have no labels.
const MOST_LABELLED = 4;
const labelled = panels.length <= MOST_LABELLED;

const paint = (pixels, at, [red, green, blue]) => {
  pixels[at] = red;
  pixels[at + 1] = green;
  pixels[at + 2] = blue;
  pixels[at + 3] = 255;
};

// The colour of a scaled number that is neither masked nor NaN.
const rampColour = (colours, signed, value) => {
  if (signed) return colours.signed[127 + Math.round(127 * Math.min(1, Math.max(-1, value)))];
  return colours.ramp[Math.round(255 * Math.min(1, Math.max(0, value)))];
};

const colourOf = (colours, signed, value, diagonal) => {
  if (value === MASKED) return diagonal % 9 < 2 ? colours.hatch : colours.masked;
  return Number.isNaN(value) ? colours.nan : rampColour(colours, signed, value);
};

// Whether what is written on a colour is to have that of the ground.
const isStrong = (signed, value) => (signed ? Math.abs(value) > 0.65 : value > 0.5);

// A panel on the page: its canvas, and its caption where there are several.
const makeView = (panel) => {
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  const title = document.createElement('span');
  const value = document.createElement('b');
  const about = document.createElement('small');
  const canvas = document.createElement('canvas');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-describedby', 'reading');
  about.textContent = panel.about;
  about.title = panel.about;
  about.hidden = panel.about === '';
  caption.hidden = !several;
  caption.append(title, value, about);
  figure.append(caption, canvas);
  const plot = { left: 0, top: 0, width: 1, height: 1 };
  return { panel, figure, caption, title, value, canvas, plot, by: 1, painted: { name: '' } };
};
const views = panels.map(makeView);

// What all canvases share: the room for labels and for cells, and the size of a cell, so that equal tokens are equally far
// apart in all of them.
let shared = { left: 0, top: 0, size: 1, whole: 1 };

const layout = () => {
  const width = Math.max(several ? 100 : 280, Math.min(...views.map(({ canvas }) => canvas.clientWidth)));
  const longest = (length, name) => {
    let most = 0;
    for (let at = 0; at < length; at += 1) most = Math.max(most, [...cut(name(at), 14)].length);
    return most * 7.3 + 12;
  };
  const most = (of) => Math.max(...panels.map(of));
  const left = labelled ? Math.max(48, most((panel) => longest(mapOf(panel).queries, (at) => queryToken(panel, at)))) : 3;
  const top = labelled ? most((panel) => longest(mapOf(panel).keys, (at) => keyToken(panel, at))) + 18 : 3;
  const across = Math.min(width - left - 4, 900);
  const down = labelled ? Math.min(across, Math.max(320, innerHeight - top - 150)) : across;
  const wholes = panels.map(mapOf).map(({ queries, keys }) => Math.min(across / keys, down / queries, 40));
  const whole = Math.min(...wholes);
  const size = state.size || whole;
  const within = (first, length, room) => Math.min(Math.max(0, first), length - Math.min(length, room / size));
  state.left = within(state.left, most((panel) => mapOf(panel).keys), across);
  state.top = within(state.top, most((panel) => mapOf(panel).queries), down);
  shared = { width, left, top, size, whole };
  for (const { panel, plot } of views) {
    const { queries, keys } = mapOf(panel);
    // A shorter text cannot go along as far.
    plot.left = within(state.left, keys, across);
    plot.top = within(state.top, queries, down);
    plot.width = Math.min(keys, across / size) * size;
    plot.height = Math.min(queries, down / size) * size;
  }
};

// The cells alone; painted anew only where something else is to be seen than before.
const paintCells = (view, context, density) => {
  const { panel, plot } = view;
  const { size } = shared;
  const { queries, keys } = mapOf(panel);
  const across = Math.max(1, Math.round(plot.width * density));
  const down = Math.max(1, Math.round(plot.height * density));
  const name = [state.map, state.scale, plot.left, plot.top, size, across, down, density, dark.matches].join(' ');
  if (view.painted.name === name) return view.painted.image;
  const colours = theme();
  const cell = size * density;
  view.by = Math.max(1, Math.ceil(1 / cell - 1e-9));
  const { by } = view;
  const { cells, columns } = pooled(panel, by);
  const image = context.createImageData(across, down);
  const gap = size >= 12 ? density : 0;
  const places = (length, first, most) => {
    const list = new Int32Array(length);
    for (let pixel = 0; pixel < length; pixel += 1) {
      const at = (pixel + 0.5) / cell + first;
      const within = (at - Math.floor(at)) * cell;
      list[pixel] = gap && within > cell - gap ? -1 : Math.floor(Math.min(most - 1, at) / by);
    }
    return list;
  };
  const columnAt = places(across, plot.left, keys);
  const rowAt = places(down, plot.top, queries);
  for (let y = 0, at = 0; y < down; y += 1) {
    for (let x = 0; x < across; x += 1, at += 4) {
      const between = rowAt[y] < 0 || columnAt[x] < 0;
      const colour = between
        ? colours.ground
        : colourOf(colours, panel.signed, cells[rowAt[y] * columns + columnAt[x]], x + y);
      paint(image.data, at, colour);
    }
  }
  view.painted = { name, image };
  return image;
};

const drawLabels = (view, context) => {
  const { panel, plot } = view;
  const { left, top, size } = shared;
  const { queries, keys } = mapOf(panel);
  const colours = theme();
  const cell = cellIn(panel);
  const pinned = pinnedIn(panel);
  // As large as a row is high, so that every row has a label as long as it can be read.
  const font = Math.max(9, Math.min(12, size));
  context.font = `${font}px ui-monospace, "DejaVu Sans Mono", Menlo, monospace`;
  context.textBaseline = 'middle';
  const stride = Math.max(1, Math.ceil(font / size - 0.05));
  const bright = (chosen) => css(chosen ? colours.text : colours.faint);
  context.textAlign = 'right';
  const firstRow = Math.ceil(plot.top / stride) * stride;
  for (let row = firstRow; row < Math.min(queries, plot.top + plot.height / size); row += stride) {
    const y = top + (row - plot.top + 0.5) * size;
    if (y > top + plot.height) break;
    context.fillStyle = bright(row === pinned || state.cell === null || row === cell?.query);
    context.fillText(cut(queryToken(panel, row), 14), left - 6, y);
  }
  context.textAlign = 'left';
  const firstColumn = Math.ceil(plot.left / stride) * stride;
  for (let column = firstColumn; column < Math.min(keys, plot.left + plot.width / size); column += stride) {
    const x = left + (column - plot.left + 0.5) * size;
    if (x > left + plot.width) break;
    context.save();
    context.translate(x, top - 6);
    context.rotate(-Math.PI / 2);
    context.fillStyle = bright(state.cell === null || column === cell?.key);
    context.fillText(cut(keyToken(panel, column), 14), 0, 0);
    context.restore();
  }
  context.fillStyle = css(colours.faint);
  context.font = '12px system-ui, sans-serif';
  context.fillText('key', left, 8);
  context.textAlign = 'right';
  context.fillText('query', left - 6, top - 12);
};

// The pinned row and the cell that is looked at, in every panel that has them.
const drawMarks = (view, context) => {
  const { panel, plot } = view;
  const { left, top, size } = shared;
  const cell = cellIn(panel);
  const pinned = pinnedIn(panel);
  const wider = size >= 12 ? 1 : 2;
  context.save();
  context.beginPath();
  context.rect(left - 2, top - 2, plot.width + 4, plot.height + 4);
  context.clip();
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--mark');
  context.lineWidth = 2;
  const outline = (column, row, columnsWide) => {
    const x = left + (column - plot.left) * size;
    const y = top + (row - plot.top) * size;
    context.strokeRect(x - 1, y - 1, Math.max(3, columnsWide * size) + wider, Math.max(3, size) + wider);
  };
  if (pinned !== null) outline(0, pinned, mapOf(panel).keys);
  if (cell !== null) outline(cell.key, cell.query, 1);
  context.restore();
};

const drawView = (view) => {
  const { canvas, plot } = view;
  const { width, left, top } = shared;
  const density = Math.min(3, devicePixelRatio || 1);
  const height = top + plot.height + 4;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.fillStyle = css(theme().ground);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.putImageData(paintCells(view, context, density), Math.round(left * density), Math.round(top * density));
  context.scale(density, density);
  if (labelled) drawLabels(view, context);
  drawMarks(view, context);
};

// By which rules the cells of a panel are coloured.
const rulesOf = (panel) => {
  const { by } = views[panels.indexOf(panel)];
  const { quantities } = panel;
  const rules = [panel.scales[state.scale]];
  if (by > 1) rules.push(`each dot shows the largest of ${by} x ${by} ${quantities}`);
  if (panel.beyond && state.scale === 'fixed') rules.push(panel.beyond);
  if (coarse(panel)) rules.push(`${quantities} in this page are exact to ${precisionText(panel)}`);
  return rules;
};

const draw = () => {
  layout();
  views.forEach(drawView);
  element('rule').textContent = `${merged(rulesOf).join('; ')}.`;
};

const thumbnail = (target, panel, at) => {
  const { rows, columns, cells } = panel.maps[at].thumbnails[state.scale];
  const codes = bytes(cells);
  const colours = theme();
  target.width = columns;
  target.height = rows;
  const context = target.getContext('2d');
  const image = context.createImageData(columns, rows);
  const number = (code) => (panel.signed ? code / 126 - 1 : code / 253);
  codes.forEach((code, place) => {
    const value = code === 255 ? MASKED : code === 254 ? NaN : number(code);
    // A dot of a thumbnail is too large for hatching.
    paint(image.data, 4 * place, colourOf(colours, panel.signed, value, 8));
  });
  context.putImageData(image, 0, 0);
};

// The bars of colours, and what masked looks like.
const legend = () => {
  const colours = theme();
  element('bars').replaceChildren(...data.bars.map(({ ticks, called, signed, panels: places }) => {
    const bar = document.createElement('div');
    const ramp = document.createElement('canvas');
    const line = document.createElement('div');
    const marks = [...ticks[state.scale]].reverse();
    if (data.bars.length > 1) {
      const names = document.createElement('small');
      names.textContent = places.map((place) => panels[place].name).join(', ');
      bar.append(names);
    }
    const row = signed ? colours.signed : colours.ramp;
    ramp.width = row.length;
    ramp.height = 1;
    ramp.setAttribute('role', 'img');
    ramp.setAttribute('aria-label', `colours from a ${called} of ${marks[0]} to one of ${marks[marks.length - 1]}`);
    const context = ramp.getContext('2d');
    const image = context.createImageData(row.length, 1);
    row.forEach((colour, at) => paint(image.data, 4 * at, colour));
    context.putImageData(image, 0, 0);
    line.className = 'ticks';
    line.append(...marks.map((mark) => {
      const span = document.createElement('span');
      span.textContent = mark;
      return span;
    }));
    bar.append(ramp, line);
    return bar;
  }));
  const sample = element('masked').getContext('2d');
  const pixels = sample.createImageData(14, 14);
  for (let at = 0; at < 196; at += 1) {
    paint(pixels.data, 4 * at, colourOf(colours, false, MASKED, (at % 14) + Math.floor(at / 14)));
  }
  sample.putImageData(pixels, 0, 0);
};
