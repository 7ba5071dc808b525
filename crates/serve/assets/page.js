'use strict';
(() => {
  const main = document.getElementById('main');
  const status = document.getElementById('status');
  const REFRESH = 2000;
  const ALARMS = {
    covariate_shift: 'Images look different',
    flips: 'Predictions flip',
    class_shares: 'Class shares moved',
    accuracy_below: 'Accuracy probably below the line',
    labelled_accuracy_below: 'Labels say: accuracy below the line',
    adaptation_harms: 'Adapting harms',
  };
  const FLAGS = {
    outside_fitted_range: 'unlike anything the calibration saw',
    class_marginal_mismatch: 'class shares differ from the calibration',
    too_few_images: 'too few images to say much',
    saturated_fit: 'the fit is flat here',
  };
  let settings = null;
  let drawn = '';
  let questions = [];

  // Elements are made here and texts set as texts, so that no name from a request becomes markup.
  const make = (tag, attributes = {}, ...children) => {
    const svg = ['svg', 'path', 'line', 'circle', 'rect', 'text', 'g', 'title'].includes(tag);
    const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
    }
    for (const child of children.flat(9)) if (child !== null && child !== undefined) element.append(child);
    return element;
  };
  const percent = (share, digits = 1) => (100 * share).toFixed(digits) + '%';
  const count = (number) => number.toLocaleString('en-US');
  const time = (seconds) => new Date(1000 * seconds).toLocaleString();
  const className = (number) => (settings && settings.classes[number]) || String(number);
  const best = (window) => {
    if (!window) return null;
    if (window.labelled) return window.labelled.joined || window.labelled.powered.estimate;
    return window.estimate;
  };

  const ask = async (path, options = {}) => {
    const headers = { ...(options.headers || {}) };
    const token = sessionStorage.getItem('token');
    if (token) headers.Authorization = 'Bearer ' + token;
    const response = await fetch(path, { ...options, headers });
    if (response.status === 401) {
      showToken();
      throw new Error('a token is needed');
    }
    return response;
  };
  const get = async (path, options) => {
    const response = await ask(path, options);
    const body = await response.json();
    if (!response.ok) throw new Error(body.error || response.statusText);
    return body;
  };

  const show = (key, ...children) => {
    drawn = key;
    main.replaceChildren(...children.flat(9).filter((child) => child));
  };
  const showToken = () => {
    const input = make('input', { type: 'password', id: 'token', autocomplete: 'off' });
    const keep = (event) => {
      event.preventDefault();
      sessionStorage.setItem('token', input.value);
      refresh();
    };
    show('token', make('h1', {}, 'A token is needed'),
      make('form', { onsubmit: keep }, make('label', { for: 'token' }, 'Token '), input, ' ', make('button', {}, 'Go on')));
    input.focus();
  };

  const badges = (alarms) => (alarms.length
    ? alarms.map((kind) => make('span', { class: 'badge' }, ALARMS[kind] || kind))
    : [make('span', { class: 'badge calm' }, 'no alarm')]);
  const interval = (estimate) => `${percent(estimate.low)} to ${percent(estimate.high)}`;

  const showStreams = async () => {
    const list = await get('streams?limit=100');
    const cards = list.streams.map((row) => make('a', { class: 'card' + (row.alarms && row.alarms.length ? ' alarmed' : ''), href: '#stream/' + encodeURIComponent(row.stream) },
      make('h2', {}, row.stream),
      row.error ? make('p', { class: 'missing' }, row.error) : [
        make('div', { class: 'big' }, row.estimate ? percent(row.estimate.accuracy) : '…'),
        make('div', { class: 'hint' }, row.estimate ? `${interval(row.estimate)}${row.labelled ? ', with labels' : ''}` : 'the first window is not full yet'),
        make('div', { class: 'hint' }, `${count(row.images)} images`),
        make('div', {}, badges(row.alarms)),
      ]));
    const alarmed = list.streams.filter((row) => row.alarms && row.alarms.length).length;
    const text = alarmed ? `${alarmed} of ${count(list.count)} streams have an alarm.` : `No alarm in ${count(list.count)} streams.`;
    show('streams', make('h1', {}, 'How accurate is the model today?'), make('p', { class: 'lead' }, list.count ? text : 'No image has come yet.'),
      make('div', { class: 'cards' }, cards), list.next ? make('p', { class: 'missing' }, 'More streams: GET /streams?after=' + list.next) : null);
  };

  // Accuracy by windows: a band for the interval, a line for the estimate, dashed lines where alarms were raised.
  const historyChart = (windows, alarms, readout) => {
    const [width, height, left, bottom, top] = [720, 240, 40, 26, 8];
    const known = windows.filter((window) => best(window));
    if (!known.length) return make('p', { class: 'missing' }, 'No window is full yet.');
    const first = known[0].first_image;
    const last = known[known.length - 1].first_image + known[known.length - 1].images;
    const x = (image) => left + (width - left - 8) * (image - first) / Math.max(1, last - first);
    const y = (share) => top + (height - top - bottom) * (1 - share);
    const middle = (window) => x(window.first_image + window.images / 2);
    const path = (points) => points.map(([a, b], i) => `${i ? 'L' : 'M'}${a.toFixed(1)} ${b.toFixed(1)}`).join('');
    const upper = known.map((window) => [middle(window), y(best(window).high)]);
    const lower = known.map((window) => [middle(window), y(best(window).low)]).reverse();
    const say = (window) => {
      const estimate = best(window);
      readout.textContent = `Window ${window.number}, ${count(window.images)} images until ${time(window.ended)}: ${percent(estimate.accuracy)} (${interval(estimate)})` +
        (window.labelled ? `, with ${window.labelled.labels} labels` : '') +
        (window.adapted && window.adapted.estimate ? `; adapted ${percent(window.adapted.estimate.accuracy)} (${interval(window.adapted.estimate)})` : '');
    };
    const adapted = known.filter((window) => window.adapted && window.adapted.estimate);
    const dots = known.map((window) => make('circle', {
      class: 'dot' + (window.labelled ? ' labelled' : ''), cx: middle(window).toFixed(1), cy: y(best(window).accuracy).toFixed(1), r: known.length > 80 ? 2 : 4, tabindex: 0,
      onfocus: () => say(window), onpointerover: () => say(window),
    }, make('title', {}, `window ${window.number}: ${percent(best(window).accuracy)}`)));
    say(known[known.length - 1]);
    const inView = alarms.filter((alarm) => alarm.image >= first && alarm.image <= last);
    return make('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'accuracy by windows' },
      [0, 0.25, 0.5, 0.75, 1].map((share) => [make('line', { class: 'grid', x1: left, x2: width - 8, y1: y(share), y2: y(share) }), make('text', { x: 0, y: y(share) + 4 }, percent(share, 0))]),
      settings.monitor.accuracy_line ? make('line', { class: 'limit', x1: left, x2: width - 8, y1: y(settings.monitor.accuracy_line), y2: y(settings.monitor.accuracy_line) }) : null,
      make('path', { class: 'band', d: path([...upper, ...lower]) + 'Z' }),
      make('path', { class: 'line', d: path(known.map((window) => [middle(window), y(best(window).accuracy)])) }),
      adapted.length ? make('path', { class: 'line adapted', d: path(adapted.map((window) => [middle(window), y(window.adapted.estimate.accuracy)])) }, make('title', {}, 'the adapted network')) : null,
      inView.map((alarm) => make('line', { class: 'mark', x1: x(alarm.image), x2: x(alarm.image), y1: top, y2: height - bottom }, make('title', {}, ALARMS[alarm.kind] || alarm.kind))),
      dots,
      make('text', { x: left, y: height - 6 }, `image ${count(first)}`), make('text', { x: width - 8, y: height - 6, 'text-anchor': 'end' }, `image ${count(last)}`));
  };
  const shareChart = (window) => {
    const rows = window.classes.slice(0, 12);
    const most = Math.max(...rows.map((row) => Math.max(row.share, settings.clean_shares[row.class] || 0)), 0.01);
    const [width, step] = [420, 22];
    return make('svg', { class: 'chart', viewBox: `0 0 ${width} ${step * rows.length}`, role: 'img', 'aria-label': 'shares of predicted classes' },
      rows.map((row, i) => [
        make('text', { x: 0, y: step * i + 14 }, className(row.class).slice(0, 18)),
        make('rect', { class: 'bar before', x: 130, y: step * i + 12, width: 230 * (settings.clean_shares[row.class] || 0) / most, height: 6 }),
        make('rect', { class: 'bar', x: 130, y: step * i + 4, width: 230 * row.share / most, height: 7 }),
        make('text', { x: width, y: step * i + 14, 'text-anchor': 'end' }, percent(row.share)),
      ]));
  };

  const points = (share) => (share > 0 ? '+' : '') + (100 * share).toFixed(1);
  const adaptedView = (counts, window) => {
    const last = window && window.adapted;
    let accuracy = 'Its accuracy is not estimated: this calibration did not learn what adapting gains (flipcast calibrate --advise).';
    if (last) {
      accuracy = (last.estimate ? `${percent(last.estimate.accuracy)} of the last ${count(last.images)} images are right, ${interval(last.estimate)}: ` : '') +
        `${points(last.gain)} points over the source model (${points(last.low)} to ${points(last.high)}); it is worse with probability ${percent(last.risk, 0)}.`;
    } else if (settings.estimates_gain) accuracy = 'No window of it is full yet.';
    return [make('h2', {}, 'Adapted network'), make('p', { id: 'adapted' }, accuracy),
      make('p', { class: 'hint' }, `Predicted ${count(counts.images)} images, ${count(counts.changed_images)} otherwise than the source model; the guard allowed ${count(counts.allowed_images)}` +
        (counts.resets ? ` and sent it back to the source parameters ${count(counts.resets)} times.` : '.') + (counts.reasons.length ? ` Now: ${counts.reasons.join('; ')}.` : ''))];
  };

  const showStream = async (name) => {
    const base = 'streams/' + encodeURIComponent(name);
    const [stream, history] = await Promise.all([get(base), get(base + '/windows?limit=400')]);
    const windows = [...history.windows];
    const window = windows[windows.length - 1] || stream.open;
    const estimate = best(window);
    const readout = make('p', { class: 'readout', role: 'status' });
    const active = stream.alarms.filter((alarm) => alarm.active);
    const reset = async () => {
      await ask(base + '/reset', { method: 'POST' });
      refresh();
    };
    const tests = stream.tests.map((test) => make('tr', {}, make('td', {}, ALARMS[test.kind] || test.kind), make('td', {}, test.log_e_value.toFixed(2)), make('td', {}, test.line.toFixed(2))));
    const labels = stream.labels;
    show('stream/' + name,
      make('h1', {}, name),
      make('p', { class: 'lead' }, estimate ? `${percent(estimate.accuracy)} of the last ${count(window.images)} images are right, ${interval(estimate)} with ${percent(settings.monitor.level, 0)} confidence; on the calibration's images it was ${percent(settings.clean_accuracy)}.` : 'The first window is not full yet.'),
      make('div', {}, badges(active.map((alarm) => alarm.kind)), (estimate ? estimate.flags : []).map((flag) => make('span', { class: 'badge flag' }, FLAGS[flag] || flag))),
      make('nav', { 'aria-label': 'This stream' }, make('a', { href: '#label/' + encodeURIComponent(name) }, 'Label images'), make('a', { href: base + '/records' }, 'Records for flipcast report'),
        active.length ? make('button', { type: 'button', id: 'reset', onclick: reset }, 'Take back the alarms') : null),
      make('h2', {}, 'Accuracy by windows'), historyChart(windows, stream.alarms, readout), readout,
      make('div', { class: 'columns' },
        make('div', {}, make('h2', {}, 'Alarms'),
          stream.alarms.length ? [...stream.alarms].reverse().slice(0, 20).map((alarm) => make('div', { class: 'alarm' + (alarm.active ? '' : ' past') },
            make('strong', {}, ALARMS[alarm.kind] || alarm.kind), make('p', {}, alarm.text), make('p', { class: 'hint' }, `image ${count(alarm.image)}, ${time(alarm.time)}`),
            settings.keep_images_seconds && alarm.images.length ? make('p', {}, alarm.images.map((image) => make('a', { href: `${base}/images/${image}`, class: 'hint' }, `#${image} `))) : null)) : make('p', { class: 'missing' }, 'None.'),
          make('h2', {}, 'Tests'), make('p', { class: 'hint' }, 'Logarithm of the evidence against “nothing has changed”; above the line it is an alarm, however often one looks.'),
          make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'test'), make('th', {}, 'evidence'), make('th', {}, 'line'))), make('tbody', {}, tests))),
        make('div', {}, window ? [make('h2', {}, 'Predicted classes'), make('p', { class: 'hint' }, 'Last window; grey, among clean images.'), shareChart(window),
          make('p', { class: 'hint' }, `Mean entropy ${window.entropy.toFixed(3)}, confidence ${percent(window.confidence)}` + (window.flips === null ? '' : `, flips ${percent(window.flips)}`))] : null,
          stream.adapted ? adaptedView(stream.adapted, window) : null,
          labels ? [make('h2', {}, 'Labels'), make('p', {}, `${labels.labels} labels` + (labels.powered ? `: ${percent(labels.powered.estimate.accuracy)} (${interval(labels.powered.estimate)}), as sure as ${labels.powered.effective_labels.toFixed(0)} labels alone` : ', five are needed'))] : null)),
      window && window.explanation.length ? [make('h2', {}, 'In words'), window.explanation.map((text) => make('p', {}, text))] : null);
  };

  const KEYS = '1234567890qwertzuiopasdfghjkl';
  const showLabels = async (name) => {
    const base = 'streams/' + encodeURIComponent(name);
    if (!questions.length || questions.stream !== name) {
      questions = (await get(base + '/ask?n=20')).questions;
      questions.stream = name;
      questions.done = 0;
    }
    const [question] = questions;
    if (!question) {
      show('label/' + name, make('h1', {}, 'Nothing to label'), make('p', {}, 'No image of this stream waits for a label.'), make('p', {}, make('a', { href: '#stream/' + encodeURIComponent(name) }, 'Back to the stream')));
      return;
    }
    const answer = async (verdict) => {
      const { stream, done } = questions;
      const body = JSON.stringify({ stream: name, labels: [{ image: question.image, ...verdict }] });
      const response = await ask('labels', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
      // A question that the server has forgotten is passed over.
      if (!response.ok && response.status !== 409) throw new Error((await response.json()).error || response.statusText);
      questions = Object.assign(questions.slice(1), { stream, done: done + response.ok });
      drawn = '';
      refresh();
    };
    const few = settings.classes.length <= KEYS.length;
    const choices = few ? settings.classes.map((text, number) => [KEYS[number], text, { class: number }]) : [];
    choices.push(['y', 'right', { right: true }], ['n', 'wrong', { right: false }]);
    const chosen = few ? choices.slice(0, -2) : choices;
    const file = question.is_kept ? await ask(`${base}/images/${question.image}`) : null;
    const picture = file && file.ok ? make('img', { alt: `image ${question.image}`, src: URL.createObjectURL(await file.blob()) }) : make('p', { class: 'missing' }, 'The image is not kept here; look it up by its number.');
    document.onkeydown = (event) => {
      const choice = chosen.find(([key]) => key === event.key);
      if (choice && location.hash.startsWith('#label/') && !event.ctrlKey && !event.metaKey) answer(choice[2]).catch(report);
    };
    show('label/' + name, make('h1', {}, `Which class is image ${count(question.image)}?`),
      make('p', {}, `The model says ${question.predicted_name}, sure to ${percent(question.guess)}. ${questions.length} left, ${questions.done} done.`),
      make('div', { class: 'question' }, picture, make('div', { class: 'answers' }, chosen.map(([key, text, verdict]) =>
        make('button', { type: 'button', onclick: () => answer(verdict).catch(report) }, make('kbd', {}, key), text)))),
      make('p', {}, make('a', { href: '#stream/' + encodeURIComponent(name) }, 'Back to the stream')));
  };

  const showSettings = () => {
    show('settings', make('h1', {}, 'Settings in force'), make('pre', {}, JSON.stringify({ ...settings, classes: settings.classes.length, clean_shares: undefined }, null, 2)),
      make('p', {}, make('a', { href: 'metrics' }, 'Metrics for Prometheus')));
  };

  const report = (error) => {
    status.textContent = `${new Date().toLocaleTimeString()}: ${error.message}`;
  };
  const draw = async () => {
    const [view, ...rest] = location.hash.slice(1).split('/');
    const name = decodeURIComponent(rest.join('/'));
    try {
      if (!settings) settings = await get('settings');
      document.getElementById('model').textContent = `${settings.model}, version ${settings.model_version}`;
      for (const link of document.querySelectorAll('nav [data-view]')) link.toggleAttribute('aria-current', link.dataset.view === (view || 'streams'));
      if (view === 'stream') await showStream(name);
      else if (view === 'label') await (drawn === 'label/' + name ? null : showLabels(name));
      else if (view === 'settings') showSettings();
      else await showStreams();
      status.textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
    } catch (error) {
      report(error);
    }
  };

  // One after the other: two that overlap would each ask for questions, and the later would bring back what was answered.
  let drawing = Promise.resolve();
  const refresh = () => (drawing = drawing.then(draw));

  const theme = document.getElementById('theme');
  const themes = ['automatic', 'light', 'dark'];
  theme.addEventListener('click', () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || 'automatic') + 1) % 3];
    if (next === 'automatic') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.textContent = 'Theme: ' + next;
  });
  window.addEventListener('hashchange', () => {
    drawn = '';
    refresh();
  });
  const again = () => setTimeout(async () => {
    // Drawing anew would take the focus from whoever uses the keyboard.
    if (!document.hidden && drawn !== 'token' && !main.contains(document.activeElement)) await refresh();
    again();
  }, REFRESH);
  refresh();
  again();
})();
