// Charts as SVG elements. They are as wide as the place they stand in, so that their letters have the size of all others.

const SVG = ['svg', 'path', 'line', 'circle', 'rect', 'text', 'g', 'title'];

// Elements are made here and texts set as texts, so that no name from a request becomes markup.
export const make = (tag, attributes = {}, ...children) => {
  const element = SVG.includes(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
};
export const percent = (share, digits = 1) => (100 * share).toFixed(digits) + '%';
export const count = (number) => number.toLocaleString('en-US');

// What a window says: with labels where there are any.
export const best = (window) => {
  if (!window) return null;
  if (window.labelled) return window.labelled.joined || window.labelled.powered.estimate;
  return window.estimate;
};

const path = (points) => points.map(([a, b], i) => `${i ? 'L' : 'M'}${a.toFixed(1)} ${b.toFixed(1)}`).join('');
const svg = (width, height, label, ...children) =>
  make('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label }, ...children);

// Places of windows along the images of the stream.
const along = (windows, left, right) => {
  const last = windows[windows.length - 1];
  const [from, until] = [windows[0].first_image, last.first_image + last.images];
  const x = (image) => left + (right - left) * (image - from) / Math.max(1, until - from);
  return { from, until, x, middle: (window) => x(window.first_image + window.images / 2) };
};

// Whole tenths around all values, at least three of them.
const range = (values) => {
  let low = Math.max(0, Math.floor(10 * Math.min(...values) + 1e-9) / 10);
  const high = Math.min(1, Math.ceil(10 * Math.max(...values) - 1e-9) / 10);
  low = Math.max(0, Math.min(low, high - 0.3));
  return [low, Math.min(1, Math.max(high, low + 0.3))];
};

// Accuracy by windows: a band for the interval, a line for the estimate, dashed lines where alarms were raised.
export const historyChart = ({ windows, alarms, line, width, say, alarmName }) => {
  const known = windows.filter((window) => best(window));
  if (!known.length) return make('p', { class: 'missing' }, 'No window is full yet.');
  const [height, left, bottom, top] = [240, 44, 26, 8];
  const { from, until, x, middle } = along(known, left, width - 8);
  const adapted = known.filter((window) => window.adapted && window.adapted.estimate);
  const [low, high] = range([...known.flatMap((window) => [best(window).low, best(window).high]), ...adapted.map((window) => window.adapted.estimate.accuracy), ...(line ? [line] : [])]);
  const y = (share) => top + (height - top - bottom) * (high - share) / (high - low);
  const step = high - low > 0.5 ? 0.2 : 0.1;
  const grid = [];
  for (let share = low; share < high + 1e-9; share += step) grid.push(Math.min(share, high));
  const upper = known.map((window) => [middle(window), y(best(window).high)]);
  const lower = known.map((window) => [middle(window), y(best(window).low)]).reverse();
  const dots = known.map((window, place) => make('circle', {
    class: 'dot' + (window.labelled ? ' labelled' : ''), cx: middle(window).toFixed(1), cy: y(best(window).accuracy).toFixed(1), r: known.length > 80 ? 2 : 4,
    tabindex: place === known.length - 1 ? 0 : -1, 'aria-label': `window ${window.number}: ${percent(best(window).accuracy)}`,
    onfocus: () => say(window), onpointerover: () => say(window),
    onkeydown: (event) => {
      const next = dots[place + { ArrowLeft: -1, ArrowRight: 1 }[event.key]];
      if (next) next.focus();
    },
  }, make('title', {}, `window ${window.number}: ${percent(best(window).accuracy)}`)));
  say(known[known.length - 1]);
  const inView = alarms.filter((alarm) => alarm.image >= from && alarm.image <= until);
  return svg(width, height, 'accuracy by windows',
    grid.map((share) => [make('line', { class: 'grid', x1: left, x2: width - 8, y1: y(share), y2: y(share) }), make('text', { x: 0, y: y(share) + 4 }, percent(share, 0))]),
    line ? make('line', { class: 'limit', x1: left, x2: width - 8, y1: y(line), y2: y(line) }, make('title', {}, `the line, ${percent(line)}`)) : null,
    make('path', { class: 'band', d: path([...upper, ...lower]) + 'Z' }),
    make('path', { class: 'line', d: path(known.map((window) => [middle(window), y(best(window).accuracy)])) }),
    adapted.length ? make('path', { class: 'line adapted', d: path(adapted.map((window) => [middle(window), y(window.adapted.estimate.accuracy)])) }, make('title', {}, 'the adapted network')) : null,
    inView.map((alarm) => make('line', { class: 'mark', x1: x(alarm.image), x2: x(alarm.image), y1: top, y2: height - bottom }, make('title', {}, alarmName(alarm.kind)))),
    dots,
    make('text', { x: left, y: height - 6 }, `image ${count(from)}`), make('text', { x: width - 8, y: height - 6, 'text-anchor': 'end' }, `image ${count(until)}`));
};

// What the lines of the chart above are; only those that are in it.
export const legend = ({ windows, alarms, line }) => {
  const key = (kind, text) => make('span', { class: 'key' }, make('svg', { class: 'swatch', viewBox: '0 0 24 12', 'aria-hidden': 'true' }, kind), text);
  const stroke = (name) => make('line', { class: name, x1: 0, x2: 24, y1: 6, y2: 6 });
  const known = windows.filter((window) => best(window));
  if (!known.length) return null;
  return make('p', { class: 'legend' },
    key(stroke('line'), 'estimate'), key(make('rect', { class: 'band', width: 24, height: 12 }), 'interval'),
    known.some((window) => window.adapted && window.adapted.estimate) ? key(stroke('line adapted'), 'adapted network') : null,
    known.some((window) => window.labelled) ? key(make('circle', { class: 'dot labelled', cx: 12, cy: 6, r: 4 }), 'with labels') : null,
    alarms.length ? key(stroke('mark'), 'alarm') : null, line ? key(stroke('limit'), `line at ${percent(line)}`) : null);
};

// One number of all windows, small.
export const smallChart = ({ windows, title, value, text, width }) => {
  const known = windows.filter((window) => value(window) !== null && value(window) !== undefined);
  if (known.length < 2) return null;
  const [height, top, bottom] = [64, 6, 6];
  const values = known.map(value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = (number) => top + (height - top - bottom) * (high > low ? (high - number) / (high - low) : 0.5);
  const { middle } = along(known, 0, width - 40);
  return make('div', {}, make('h3', {}, title, ' ', make('span', { class: 'hint' }, text(values[values.length - 1]))),
    svg(width, height, title, make('path', { class: 'line thin', d: path(known.map((window) => [middle(window), y(value(window))])) }),
      make('text', { x: width, y: 10, 'text-anchor': 'end' }, text(high)), make('text', { x: width, y: height - 1, 'text-anchor': 'end' }, text(low))));
};

// The last windows of a stream at a glance.
export const sparkline = (values) => {
  if (values.length < 2) return null;
  const [width, height] = [120, 30];
  const [low, high] = range(values);
  const place = (value, i) => [2 + (width - 6) * i / (values.length - 1), 3 + (height - 6) * (high - value) / (high - low)];
  const [x, y] = place(values[values.length - 1], values.length - 1);
  return make('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
    make('path', { class: 'line', d: path(values.map(place)) }), make('circle', { class: 'dot', cx: x, cy: y, r: 3 }));
};

// Shares of predicted classes, beside those among clean images.
export const shareChart = ({ rows, clean, className, width }) => {
  const most = Math.max(...rows.map((row) => Math.max(row.share, clean[row.class] || 0)), 0.01);
  const [step, left, right] = [24, Math.min(130, width * 0.33), 56];
  const long = (share) => (width - left - right) * share / most;
  return svg(width, step * rows.length, 'shares of predicted classes', rows.map((row, i) => [
    make('text', { x: 0, y: step * i + 15 }, className(row.class).slice(0, Math.floor(left / 7))),
    make('rect', { class: 'bar', x: left, y: step * i + 4, width: long(row.share), height: 8 }),
    make('rect', { class: 'bar before', x: left, y: step * i + 13, width: long(clean[row.class] || 0), height: 5 }),
    make('text', { x: width, y: step * i + 15, 'text-anchor': 'end' }, percent(row.share)),
  ]));
};

// How far the evidence of a test is on its way to its line.
export const evidenceBar = (value, line) => {
  const share = Math.max(0, Math.min(1, value / line));
  return make('svg', { class: 'evidence', viewBox: '0 0 100 8', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${percent(share, 0)} of the way to an alarm` },
    make('rect', { class: 'bar before', width: 100, height: 8 }), make('rect', { class: share < 1 ? 'bar' : 'bar over', width: 100 * share, height: 8 }));
};
