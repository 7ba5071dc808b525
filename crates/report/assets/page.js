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

  // A chart takes the page's colours with it, as they are now.
  const svgText = (svg) => {
    const copy = svg.cloneNode(true);
    copy.removeAttribute('tabindex');
    all('.on', copy).forEach((mark) => mark.classList.remove('on'));
    const now = getComputedStyle(root);
    const names = ['ink', 'muted', 'grid', 'paper', ...Array.from({ length: 10 }, (_, i) => 'c' + i)];
    let rules = document.querySelector('style').textContent.split('/* charts */')[1];
    for (const name of names) rules = rules.replaceAll(`var(--${name})`, now.getPropertyValue('--' + name).trim());
    const space = 'http://www.w3.org/2000/svg';
    const ground = document.createElementNS(space, 'rect');
    ground.setAttribute('class', 'f-paper');
    ground.setAttribute('width', '100%');
    ground.setAttribute('height', '100%');
    copy.prepend(ground);
    const style = document.createElementNS(space, 'style');
    style.textContent = rules;
    copy.prepend(style);
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
  all('[data-csv]').forEach((button) => button.addEventListener('click', () => {
    save(csvText(button.closest('.table').querySelector('table')), 'text/csv', button.dataset.csv);
  }));

  // Headings sort: numbers by value with missing ones last, words by their letters.
  all('.sort').forEach((button) => button.addEventListener('click', () => {
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
  }));

  // Marks are read out when pointed at or reached with the arrow keys.
  all('figure').forEach((figure) => {
    const svg = figure.querySelector('svg');
    const readout = figure.querySelector('.readout');
    if (!svg || !readout) return;
    const marks = all('.m', svg);
    let at = -1;
    const show = (next) => {
      if (at >= 0) marks[at].classList.remove('on');
      at = next;
      if (at < 0) { readout.textContent = '\u00a0'; return; }
      marks[at].classList.add('on');
      readout.textContent = marks[at].querySelector('title').textContent;
    };
    svg.addEventListener('pointerover', (event) => {
      const mark = event.target.closest('.m');
      if (mark) readout.textContent = mark.querySelector('title').textContent;
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
    const data = figure.querySelector('.frames');
    if (!data) return;
    const { captions, frames } = JSON.parse(data.textContent);
    const dots = all('.mv', figure);
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
