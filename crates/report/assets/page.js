'use strict';
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

  // Theme: automatic, light, dark, in turns.
  const themes = ['automatic', 'light', 'dark'];
  let theme = 0;
  const themeButton = document.getElementById('theme');
  themeButton.addEventListener('click', () => {
    theme = (theme + 1) % themes.length;
    themeButton.textContent = 'Theme: ' + themes[theme];
    if (theme === 0) delete root.dataset.theme; else root.dataset.theme = themes[theme];
  });

  const save = (text, type, name) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // What marks say stands in the figure's data, in the order in which they are drawn.
  const space = 'http://www.w3.org/2000/svg';
  const marksOf = (svg) => all('.m, .ms > *, .mi > *', svg);
  const known = new WeakMap();
  const dataOf = (figure) => {
    if (known.has(figure)) return known.get(figure);
    const data = JSON.parse(figure.querySelector('.figure-data').textContent);
    for (const panel of data.panels) {
      // A title is the start of the one before it and a rest.
      let letters = [];
      for (const mark of panel.marks) {
        const shared = mark.shift();
        letters = [...letters.slice(0, shared), ...mark[0]];
        mark[0] = letters.join('');
      }
    }
    known.set(figure, data);
    return data;
  };
  const titlesOf = (svg) => {
    const figure = svg.closest('.figure');
    const [charts, { panels }] = [all('svg', figure), dataOf(figure)];
    // Many small charts are one drawing.
    const own = charts.length === panels.length ? [panels[charts.indexOf(svg)]] : panels;
    return own.flatMap((panel) => panel.marks.map((mark) => mark[0]));
  };
  const addTitle = (mark, text) => {
    if (mark.querySelector('title')) return;
    const title = document.createElementNS(space, 'title');
    title.textContent = text;
    mark.prepend(title);
  };

  // A chart takes the page's colours and what its marks say with it, as they are now.
  const svgText = (svg) => {
    const copy = svg.cloneNode(true);
    const titles = titlesOf(svg);
    copy.removeAttribute('tabindex');
    all('.on', copy).forEach((mark) => mark.classList.remove('on'));
    const now = getComputedStyle(root);
    const names = ['ink', 'muted', 'grid', 'paper', ...Array.from({ length: 10 }, (_, i) => 'c' + i)];
    let rules = document.querySelector('style').textContent.split('/* charts */')[1];
    for (const name of names) rules = rules.replaceAll(`var(--${name})`, now.getPropertyValue('--' + name).trim());
    const ground = document.createElementNS(space, 'rect');
    ground.setAttribute('class', 'f-paper');
    ground.setAttribute('width', '100%');
    ground.setAttribute('height', '100%');
    copy.prepend(ground);
    const style = document.createElementNS(space, 'style');
    style.textContent = rules;
    copy.prepend(style);
    marksOf(copy).forEach((mark, i) => addTitle(mark, titles[i]));
    return new XMLSerializer().serializeToString(copy);
  };

  // The same rules as the program's own CSV: whole numbers, no formulas.
  const csvText = (table) => all('tr', table).map((row) => Array.from(row.cells).map((cell) => {
    if (cell.dataset.v !== undefined) return cell.dataset.v;
    let text = cell.textContent === '\u2013' ? '' : cell.textContent;
    if (/^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }).join(',')).join('\n') + '\n';

  all('[data-svg]').forEach((button) => button.addEventListener('click', () => {
    const svg = button.closest('figure').querySelector('svg');
    save(svgText(svg), 'image/svg+xml', button.dataset.svg);
  }));
  const bindCsv = (button) => button.addEventListener('click', () => {
    save(csvText(button.closest('.table').querySelector('table')), 'text/csv', button.dataset.csv);
  });
  all('[data-csv]').forEach(bindCsv);

  // Headings sort: numbers by value with missing ones last, words by their letters.
  const bindSort = (button) => button.addEventListener('click', () => {
    const heading = button.closest('th');
    const column = heading.cellIndex;
    const body = heading.closest('table').tBodies[0];
    const sign = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    all('th', heading.parentNode).forEach((other) => other.removeAttribute('aria-sort'));
    heading.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
    const numeric = heading.classList.contains('n');
    const value = (row) => row.cells[column].dataset.v;
    const order = (a, b) => {
      if (!numeric) return sign * a.cells[column].textContent.localeCompare(b.cells[column].textContent, 'en', { numeric: true });
      const [x, y] = [value(a), value(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return sign * (x - y);
    };
    Array.from(body.rows).sort(order).forEach((row) => body.append(row));
  });
  all('.sort').forEach(bindSort);

  // The table behind a figure is made when it is opened.
  const make = (name, attributes, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const rowsOf = (data) => data.panels.flatMap((panel) => panel.marks.flatMap(([title, ...numbers]) => {
    const words = [panel.title, title];
    if (numbers.length % 2) return [[...words, ...numbers.slice(0, 4)]];
    return Array.from({ length: numbers.length / 2 }, (_, i) => [...words, numbers[2 * i], numbers[2 * i + 1]]);
  }));
  const buildTable = (details) => {
    const { table: name, caption } = details.dataset;
    const rows = rowsOf(dataOf(details.closest('.figure')));
    const intervals = rows.some((row) => row.length > 4);
    const columns = ['chart', 'mark', 'x', 'y', ...(intervals ? ['low', 'high'] : [])];
    const head = columns.map((column, i) => {
      const button = make('button', { type: 'button', class: 'sort' }, column);
      bindSort(button);
      return make('th', i > 1 ? { scope: 'col', class: 'n' } : { scope: 'col' }, button);
    });
    const cell = (value, i) => {
      if (i === 0) return make('th', { scope: 'row' }, value);
      if (i === 1) return make('td', {}, value);
      return value === undefined ? make('td', { class: 'n' }, '\u2013') : make('td', { class: 'n', 'data-v': value }, value.toFixed(4));
    };
    const body = rows.map((row) => make('tr', {}, ...columns.map((_, i) => cell(row[i], i))));
    const table = make('table', { 'data-name': name }, make('caption', {}, caption), make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...body));
    const button = make('button', { type: 'button', class: 'get', 'data-csv': name + '.csv', 'aria-label': 'Download this table as CSV: ' + caption }, 'CSV');
    bindCsv(button);
    const scroll = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, table);
    details.append(make('div', { class: 'table' }, scroll, button));
  };
  all('[data-table]').forEach((details) => details.addEventListener('toggle', () => {
    if (details.open && !details.querySelector('table')) buildTable(details);
  }));

  // Marks are read out when pointed at or reached with the arrow keys.
  all('figure').forEach((figure) => {
    const svg = figure.querySelector('svg');
    const readout = figure.querySelector('.readout');
    if (!svg || !readout) return;
    const [marks, titles] = [marksOf(svg), titlesOf(svg)];
    let at = -1;
    const show = (next) => {
      if (at >= 0) marks[at].classList.remove('on');
      at = next;
      if (at < 0) { readout.textContent = '\u00a0'; return; }
      marks[at].classList.add('on');
      readout.textContent = titles[at];
    };
    svg.addEventListener('pointerover', (event) => {
      const mark = event.target.closest('.m, .ms > *, .mi > *');
      if (!mark) return;
      const title = titles[marks.indexOf(mark)];
      readout.textContent = title;
      addTitle(mark, title);
    });
    svg.addEventListener('keydown', (event) => {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      if (marks.length === 0) return;
      if (event.key in steps) show(clamp(at + steps[event.key], 0, marks.length - 1));
      else if (event.key === 'Home') show(0);
      else if (event.key === 'End') show(marks.length - 1);
      else if (event.key === 'Escape') show(-1);
      else return;
      event.preventDefault();
    });
    svg.addEventListener('blur', () => show(-1));
  });

  // Figures that move.
  all('.figure').forEach((figure) => {
    const { captions, frames: later, unit } = dataOf(figure);
    if (!later) return;
    const dots = all('.mv', figure);
    // The first frame is drawn; the others are pairs of digits.
    const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
    const value = new Map(Array.from(digits, (digit, i) => [digit, i]));
    const drawn = dots.flatMap((dot) => dot.getAttribute('transform').match(/-?[\d.]+/g).map(Number));
    const read = (text) => Array.from({ length: text.length / 2 }, (_, i) => unit * (64 * value.get(text[2 * i]) + value.get(text[2 * i + 1])));
    const frames = [drawn, ...later.map(read)];
    const input = figure.querySelector('input[type=range]');
    const caption = figure.querySelector('.slider output');
    const play = figure.querySelector('.play');
    const still = matchMedia('(prefers-reduced-motion: reduce)');
    let moving = 0;
    const place = (from, to, share) => dots.forEach((dot, i) => {
      const x = from[2 * i] + (to[2 * i] - from[2 * i]) * share;
      const y = from[2 * i + 1] + (to[2 * i + 1] - from[2 * i + 1]) * share;
      dot.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    });
    let shown = 0;
    const show = (next, seconds) => {
      cancelAnimationFrame(moving);
      const from = frames[shown];
      shown = next;
      input.value = next;
      caption.textContent = captions[next] || '';
      input.setAttribute('aria-valuetext', captions[next] || String(next + 1));
      if (still.matches || !seconds) { place(frames[next], frames[next], 0); return; }
      const begin = performance.now();
      const step = (now) => {
        const share = clamp((now - begin) / (1000 * seconds), 0, 1);
        place(from, frames[next], share);
        if (share < 1) moving = requestAnimationFrame(step);
      };
      moving = requestAnimationFrame(step);
    };
    input.addEventListener('input', () => { stop(); show(Number(input.value), 0); });
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = '\u25b6';
      play.setAttribute('aria-label', 'Play');
    };
    play.addEventListener('click', () => {
      if (timer) { stop(); return; }
      play.textContent = '\u23f8';
      play.setAttribute('aria-label', 'Pause');
      if (shown === frames.length - 1) show(0, 0);
      const next = () => {
        show(shown + 1, 0.5);
        if (shown >= frames.length - 1) stop();
      };
      timer = setInterval(next, 900);
      next();
    });
  });
})();
