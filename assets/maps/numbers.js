// What the page holds, where one is looking, and the numbers of a map: decoded when they are first looked at, scaled,
// pooled, and as text.

const element = (id) => document.getElementById(id);
const data = JSON.parse(element('maps').textContent);
const { panels, patterns } = data;
const count = panels.length ? panels[0].maps.length : 0;
const several = panels.length > 1;
// Below every number, and the same in single precision.
const MASKED = -Infinity;

// Which map of each panel, the panel that was pointed at last, the scale, the cell under the pointer or the arrow keys and
// the pinned row (each with the panel whose query and key these are), and the part that is shown, as the cell at the upper
// left and the size of a cell in pixels (0: all of the map).
const state = { map: 0, panel: data.leading, scale: data.scale, cell: null, pinned: null, left: 0, top: 0, size: 0 };

const mapOf = (panel) => panel.maps[state.map];
const pointed = () => panels[state.panel];

// --- decoded

const bytes = (text) => {
  const binary = atob(text);
  const decoded = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) decoded[at] = binary.charCodeAt(at);
  return decoded;
};

const numbersId = (panel, at) => `numbers-${panels.indexOf(panel)}-${at}`;

// Of each panel, those of the map that was looked at last.
const decoded = new Map();

const numbers = (panel) => {
  if (decoded.has(panel) && decoded.get(panel).at === state.map) return decoded.get(panel);
  const map = mapOf(panel);
  const coded = bytes(element(numbersId(panel, state.map)).textContent);
  const codes = data.bits === 16 ? new Uint16Array(coded.buffer) : coded;
  const last = data.bits === 16 ? 65534 : 254;
  const values = new Float32Array(map.queries * map.keys).fill(MASKED);
  // Of each row, the largest number, or the one furthest from 0.
  const largest = new Float32Array(map.queries);
  let from = 0;
  for (let query = 0; query < map.queries; query += 1) {
    const visible = map.causal ? Math.max(0, Math.min(map.keys, query + 1 + map.keys - map.queries)) : map.keys;
    for (let key = 0; key < visible; key += 1, from += 1) {
      const share = codes[from] / last;
      const value = share > 1 ? NaN : map.low + (map.high - map.low) * (panel.even ? share : share * share);
      values[query * map.keys + key] = value;
      const size = panel.signed ? Math.abs(value) : value;
      if (size > largest[query]) largest[query] = size;
    }
  }
  decoded.set(panel, { at: state.map, values, largest, pools: new Map() });
  return decoded.get(panel);
};

// Nothing where the panel has no such cell.
const numberAt = (panel, cell) => {
  const { query, key } = counterpart(panel, cell);
  return query === null || key === null ? undefined : numbers(panel).values[query * mapOf(panel).keys + key];
};

// --- counterparts: the row and the column of one panel that stand for those of another

// Queries and keys are the last tokens of a text.
const tokensOf = (panel) => data.texts[panel.text].tokens;

// Which token of one panel's text stands for that of another; -1 where there is none.
const tokenFor = (panel, from, token) => {
  if (panel === from || data.counterparts === null) return token;
  const [own, other] = [panel, from].map((one) => data.counterparts[panels.indexOf(one)]);
  return typeof other[token] === 'number' ? own.indexOf(other[token]) : -1;
};

// Null in place of a query or a key without a counterpart.
const counterpart = (panel, { panel: from, ...spot }) => {
  const translated = (at, length) => {
    const token = tokenFor(panel, from, tokensOf(from).length - mapOf(from)[length] + at);
    const found = token - (tokensOf(panel).length - mapOf(panel)[length]);
    return token !== -1 && found >= 0 && found < mapOf(panel)[length] ? found : null;
  };
  return { query: translated(spot.query, 'queries'), key: translated(spot.key ?? 0, 'keys') };
};

// The cell that is looked at and the row that is pinned, as a panel has them; null where it has none.
const cellIn = (panel) => {
  const cell = state.cell === null ? null : counterpart(panel, state.cell);
  return cell === null || cell.query === null || cell.key === null ? null : cell;
};
const pinnedIn = (panel) => (state.pinned === null ? null : counterpart(panel, state.pinned).query);

// --- scaled

// What a number is divided by.
const divisor = (panel, query) => {
  if (state.scale === 'fixed') return panel.bound ?? Infinity;
  return numbers(panel).largest[query] > 0 ? numbers(panel).largest[query] : 1;
};

// Of each block of so many rows and columns the largest scaled number, or the one furthest from 0 where they have a sign;
// masked ones left out.
const pooled = (panel, by) => {
  const { values, pools } = numbers(panel);
  const name = `${by} ${state.scale}`;
  if (pools.has(name)) return pools.get(name);
  const map = mapOf(panel);
  const columns = Math.ceil(map.keys / by);
  const cells = new Float32Array(Math.ceil(map.queries / by) * columns).fill(MASKED);
  const outdoes = panel.signed ? (one, other) => Math.abs(one) > Math.abs(other) : (one, other) => one > other;
  for (let query = 0; query < map.queries; query += 1) {
    const scale = divisor(panel, query);
    const row = Math.floor(query / by) * columns;
    for (let key = 0; key < map.keys; key += 1) {
      const value = values[query * map.keys + key];
      if (value === MASKED) continue;
      const cell = row + Math.floor(key / by);
      const scaled = value / scale;
      // A comparison with NaN is false: NaN stays once it is there.
      if (cells[cell] === MASKED || Number.isNaN(scaled) || outdoes(scaled, cells[cell])) cells[cell] = scaled;
    }
  }
  pools.set(name, { cells, columns });
  return pools.get(name);
};

// --- as text

// Whether fewer digits are told than else, because the page has no more.
const coarse = (panel) => (panel.unbounded ? data.bits === 8 : mapOf(panel).precision > 1e-4);

const withSign = (panel, value, digits) => {
  if (!panel.signed || Number(digits) === 0) return digits;
  return `${value < 0 ? '-' : '+'}${digits}`;
};

// A number of some size around 1, or a share of another.
const plainText = (panel, value) => withSign(panel, value, (panel.signed ? Math.abs(value) : value).toFixed(coarse(panel) ? 2 : 4));

// A number of any size: three digits, or as many as the steps of its code are worth.
const scientificText = (panel, value) => {
  const size = Math.abs(value);
  if (size === 0) return '0';
  const digits = Math.min(2, Math.max(0, Math.floor(Math.log10(size / (2 * mapOf(panel).precision)) + 1e-9)));
  return withSign(panel, value, size >= 0.001 && size < 1000 ? size.toPrecision(digits + 1) : size.toExponential(digits));
};

const numberText = (panel, value) => {
  if (value === undefined) return 'no counterpart';
  if (value === MASKED) return 'masked';
  if (Number.isNaN(value)) return 'not finite';
  return panel.unbounded ? scientificText(panel, value) : plainText(panel, value);
};

const precisionText = (panel) => {
  const { precision } = mapOf(panel);
  return panel.unbounded ? precision.toExponential(0) : precision.toFixed(3);
};

const tokenAt = (panel, length, at) => tokensOf(panel)[tokensOf(panel).length - length + at] ?? `(${at})`;
const queryToken = (panel, query) => tokenAt(panel, mapOf(panel).queries, query);
const keyToken = (panel, key) => tokenAt(panel, mapOf(panel).keys, key);
const cut = (label, length) => ([...label].length > length ? [...label].slice(0, length - 1).join('') + '…' : label);

const headOf = (panel, at) => `layer ${panel.maps[at].layer}, head ${panel.maps[at].head}`;
// The head that all panels show, or those that they do.
const named = (at) => [...new Set(panels.map((panel) => headOf(panel, at)))].join(' and ');
const capital = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

// What is to be said of panels: once where it holds for all of them, else behind the names of those that it holds for.
const merged = (sentencesOf) => {
  const said = panels.map(sentencesOf);
  const common = [...new Set(said.flat())].filter((sentence) => said.every((own) => own.includes(sentence)));
  const names = new Map();
  panels.forEach((panel, at) => {
    const own = said[at].filter((sentence) => !common.includes(sentence)).join(', ');
    if (own) names.set(own, [...(names.get(own) ?? []), panel.name]);
  });
  return [...common, ...[...names].map(([own, those]) => `${those.join(', ')}: ${own}`)];
};
