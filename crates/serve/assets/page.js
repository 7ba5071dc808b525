import { best, count, evidenceBar, historyChart, legend, make, percent, shareChart, smallChart, sparkline } from './charts.js';

const main = document.getElementById('main');
const status = document.getElementById('status');
const REFRESH = 2000;
const STREAMS = 100;
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
  unlike_known_shifts: 'the second look is less sure of itself than under any shift of the calibration',
  class_marginal_mismatch: 'class shares differ from the calibration',
  too_few_images: 'too few images to say much',
  saturated_fit: 'the fit is flat here',
};
let settings = null;
let drawn = '';
let questions = [];
let windowKind = 'count';
const pictures = new Map();

const alarmName = (kind) => ALARMS[kind] || kind;
const time = (seconds) => new Date(1000 * seconds).toLocaleString();
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
const className = (number) => (settings && settings.classes[number]) || String(number);
const many = (number, unit) => `${count(number)} ${unit}${number === 1 ? '' : 's'}`;
const ago = (seconds) => {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  for (const [unit, length] of [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]]) {
    if (passed >= length) return `${many(Math.floor(passed / length), unit)} ago`;
  }
  return 'now';
};
const roomFor = (columns) => Math.max(260, Math.min(1112, main.clientWidth - 40) / columns - (columns > 1 ? 20 : 0));

const ask = async (path, options = {}) => {
  const headers = { ...(options.headers || {}) };
  const token = sessionStorage.getItem('token');
  if (token) headers.Authorization = 'Bearer ' + token;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error('the server cannot be reached; what stands here is old');
  }
  if (response.status === 401) {
    showToken(Boolean(token));
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
// An image that is kept. A token cannot travel with an address, so that the file is fetched first, once.
const picture = async (path, alt) => {
  if (!pictures.has(path)) {
    if (pictures.size > 200) {
      pictures.forEach((url) => URL.revokeObjectURL(url));
      pictures.clear();
    }
    const file = await ask(path);
    if (!file.ok) return null;
    pictures.set(path, URL.createObjectURL(await file.blob()));
  }
  return make('img', { alt, src: pictures.get(path) });
};

const show = (key, title, ...children) => {
  drawn = key;
  document.title = `${title} – flipcast`;
  main.replaceChildren(...children.flat(9).filter((child) => child));
};
const showToken = (wasRefused) => {
  const input = make('input', { type: 'password', id: 'token', autocomplete: 'off' });
  const keep = (event) => {
    event.preventDefault();
    sessionStorage.setItem('token', input.value);
    drawn = '';
    refresh();
  };
  show('token', 'Token', make('h1', {}, 'A token is needed'),
    make('p', {}, wasRefused ? 'The one given was refused. ' : null, 'It stands in the file that the server was started with; this browser keeps it until the tab is closed.'),
    make('form', { onsubmit: keep }, make('label', { for: 'token' }, 'Token '), input, ' ', make('button', {}, 'Go on')));
  input.focus();
};

const badges = (alarms) => (alarms.length
  ? alarms.map((kind) => make('span', { class: 'badge' }, alarmName(kind)))
  : [make('span', { class: 'badge calm' }, 'no alarm')]);
const interval = (estimate) => `${percent(estimate.low)} to ${percent(estimate.high)}`;

const card = (row) => make('a', { class: 'card' + (row.alarms && row.alarms.length ? ' alarmed' : ''), href: '#stream/' + encodeURIComponent(row.stream) },
  make('h2', {}, row.stream),
  row.error ? make('p', { class: 'missing' }, row.error) : [
    make('div', { class: 'glance' }, make('span', { class: 'big' }, row.estimate ? percent(row.estimate.accuracy) : '…'), sparkline(row.recent || [])),
    make('div', { class: 'hint' }, row.estimate ? `${interval(row.estimate)}${row.labelled ? ', with labels' : ''}` : 'the first window is not full yet'),
    make('div', { class: 'hint' }, `${count(row.images)} images, the last ${ago(row.last_time)}`),
    make('div', {}, badges(row.alarms)),
  ]);

const firstSteps = () => {
  const address = `${location.origin}/v2/models/${settings.model}/infer?stream=camera-1`;
  const body = `{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["'$(base64 -w0 photo.jpg)'"]}]}`;
  return settings.predicts
    ? [make('p', {}, 'Send one as another program would:'), make('pre', {}, `curl -s '${address}' -d '${body}'`)]
    : make('p', {}, `Let the payload logger of your model server post its responses to ${location.origin}/.`);
};

const showStreams = async (after) => {
  const list = await get(`streams?limit=${STREAMS}&after=${encodeURIComponent(after)}`);
  const isAlarmed = (row) => Boolean(row.alarms && row.alarms.length);
  const rows = [...list.streams].sort((a, b) => isAlarmed(b) - isAlarmed(a));
  const alarmed = rows.filter(isAlarmed).length;
  const isAll = list.count <= rows.length;
  const of = isAll ? `${count(list.count)} streams` : `the ${count(rows.length)} streams of this page (${count(list.count)} in all)`;
  const text = alarmed ? `${count(alarmed)} of ${of} ${alarmed > 1 ? 'have' : 'has'} an alarm.` : `No alarm in ${of}.`;
  const go = (event) => {
    event.preventDefault();
    if (event.target.elements.stream.value) location.hash = '#stream/' + encodeURIComponent(event.target.elements.stream.value);
  };
  const search = make('form', { class: 'search', onsubmit: go }, make('label', {}, 'Go to ', make('input', { name: 'stream', placeholder: 'the name of a stream', autocomplete: 'off' })), ' ', make('button', {}, 'Go'));
  show('streams', (alarmed ? `(${alarmed}) ` : '') + 'Streams', make('h1', {}, 'How accurate is the model today?'), make('p', { class: 'lead' }, list.count ? text : 'No image has come yet.'),
    list.count ? null : firstSteps(), isAll ? null : search, make('div', { class: 'cards' }, rows.map(card)),
    after || list.next ? make('nav', { 'aria-label': 'Pages' }, after ? make('a', { href: '#' }, 'First page') : null, list.next ? make('a', { href: '#after/' + encodeURIComponent(list.next) }, 'Next page') : null) : null);
};

// The most frequent classes; of few classes all, so that one that no longer comes is seen.
const shareRows = (window) => {
  const rows = window.classes.slice(0, 12);
  if (settings.classes.length > 12) return rows;
  const missing = settings.classes.map((name, number) => ({ class: number, share: 0 })).filter((own) => !rows.some((row) => row.class === own.class));
  return rows.concat(missing);
};
const points = (share) => (share > 0 ? '+' : '') + (100 * share).toFixed(1);
const adaptedView = (counts, window) => {
  const last = window && window.adapted;
  let accuracy = 'Its accuracy is not estimated: this calibration did not learn what adapting gains (flipcast calibrate --advise).';
  if (last) {
    accuracy = (last.estimate ? `${percent(last.estimate.accuracy)} of the last ${count(last.images)} images are right, ${interval(last.estimate)}: ` : '') +
      `${points(last.gain)} points over the source model (${points(last.low)} to ${points(last.high)});` +
      (last.risk === null ? ' the calibration knows too few kinds of shift to tell the risk that it is worse.' : ` it is worse with probability ${percent(last.risk, 0)}.`);
  } else if (settings.estimates_gain) accuracy = 'No window of it is full yet.';
  return [make('h2', {}, 'Adapted network'), make('p', { id: 'adapted' }, accuracy),
    make('p', { class: 'hint' }, `Predicted ${count(counts.images)} images, ${count(counts.changed_images)} otherwise than the source model; the guard allowed ${count(counts.allowed_images)}` +
      (counts.resets ? ` and sent it back to the source parameters ${count(counts.resets)} times.` : '.') + (counts.reasons.length ? ` Now: ${counts.reasons.join('; ')}.` : ''))];
};
const alarmView = (base) => async (alarm) => {
  const shown = settings.keep_images_seconds && alarm.active ? await Promise.all(alarm.images.map((image) => picture(`${base}/images/${image}`, `image ${image}`))) : [];
  return make('div', { class: 'alarm' + (alarm.active ? '' : ' past') },
    make('strong', {}, alarmName(alarm.kind)), make('p', {}, sentence(alarm.text)), make('p', { class: 'hint' }, `After image ${count(alarm.image)}, ${time(alarm.time)}` + (alarm.active ? '' : ', taken back')),
    shown.some((image) => image) ? [make('p', { class: 'hint' }, 'Recent images that the model was least sure about:'), make('div', { class: 'thumbs' }, shown)] : null);
};
const testsView = (tests) => [make('h2', {}, 'Tests'), make('p', { class: 'hint' }, 'Logarithm of the evidence against “nothing has changed”; above the line it is an alarm, however often one looks.'),
  make('table', {}, make('thead', {}, make('tr', {}, ['test', 'evidence', 'line', ''].map((text) => make('th', {}, text)))),
    make('tbody', {}, tests.map((test) => make('tr', {}, make('td', {}, alarmName(test.kind)), make('td', { class: 'number' }, test.log_e_value.toFixed(2)), make('td', { class: 'number' }, test.line.toFixed(2)),
      make('td', {}, evidenceBar(test.log_e_value, test.line))))))];

const showStream = async (name) => {
  const base = 'streams/' + encodeURIComponent(name);
  const [stream, history] = await Promise.all([get(base), get(`${base}/windows?kind=${windowKind}&limit=400`)]);
  const { windows } = history;
  const window = stream.windows[stream.windows.length - 1] || stream.open;
  const estimate = best(window);
  const readout = make('p', { class: 'readout', role: 'status' });
  const say = (window) => {
    const own = best(window);
    readout.textContent = `Window ${window.number}, ${count(window.images)} images until ${time(window.ended)}: ${percent(own.accuracy)} (${interval(own)})` +
      (window.labelled ? `, with ${window.labelled.labels} labels` : '') +
      (window.adapted && window.adapted.estimate ? `; adapted ${percent(window.adapted.estimate.accuracy)} (${interval(window.adapted.estimate)})` : '');
  };
  const active = stream.alarms.filter((alarm) => alarm.active);
  const reset = async () => {
    await ask(base + '/reset', { method: 'POST' });
    refresh();
  };
  const choose = (kind, text) => make('button', { type: 'button', 'aria-pressed': String(kind === windowKind), onclick: () => {
    windowKind = kind;
    refresh();
  } }, text);
  const alarms = await Promise.all([...stream.alarms].reverse().slice(0, 20).map(alarmView(base)));
  const labels = stream.labels;
  const line = settings.monitor.accuracy_line;
  const narrow = main.clientWidth < 760;
  const small = (title, value, text) => smallChart({ windows, title, value, text, width: roomFor(narrow ? 1 : 3) });
  show('stream/' + name, (active.length ? '(!) ' : '') + name,
    make('h1', {}, name),
    make('p', { class: 'lead' }, estimate ? `${percent(estimate.accuracy)} of the last ${count(window.images)} images are right, ${interval(estimate)} with ${percent(settings.monitor.level, 0)} confidence; on the calibration’s images it was ${percent(settings.clean_accuracy)}.` : 'The first window is not full yet.'),
    make('div', {}, badges(active.map((alarm) => alarm.kind)), (estimate ? estimate.flags : []).map((flag) => make('span', { class: 'badge flag' }, FLAGS[flag] || flag))),
    make('p', { class: 'hint' }, `${count(stream.images)} images, the last ${ago(stream.last_time)}.`),
    make('nav', { 'aria-label': 'This stream' }, make('a', { href: '#label/' + encodeURIComponent(name) }, 'Label images'), make('a', { href: base + '/records', download: 'records.jsonl' }, 'Records for flipcast report'),
      active.length ? make('button', { type: 'button', id: 'reset', onclick: () => reset().catch(report) }, 'Take back the alarms') : null),
    make('div', { class: 'heading' }, make('h2', {}, 'Accuracy by windows'), make('div', { class: 'choice', role: 'group', 'aria-label': 'Windows' }, choose('count', `of ${count(settings.monitor.window_images)} images`), choose('time', `of ${settings.monitor.window_seconds % 3600 ? many(settings.monitor.window_seconds, 'second') : many(settings.monitor.window_seconds / 3600, 'hour')}`))),
    historyChart({ windows, alarms: stream.alarms, line, width: roomFor(1), say, alarmName }), legend({ windows, alarms: stream.alarms, line }), readout,
    make('div', { class: 'columns three' }, small('Mean entropy', (one) => one.entropy, (value) => value.toFixed(3)), small('Mean confidence', (one) => one.confidence, (value) => percent(value)),
      small('Predictions that flip', (one) => one.flips, (value) => percent(value))),
    make('div', { class: 'columns' },
      make('div', {}, make('h2', {}, 'Alarms'), alarms.length ? alarms : make('p', { class: 'missing' }, 'None.'), testsView(stream.tests)),
      make('div', {}, window ? [make('h2', {}, 'Predicted classes'), make('p', { class: 'hint' }, 'In the last window; grey, among clean images.'),
        shareChart({ rows: shareRows(window), clean: settings.clean_shares, className, width: roomFor(narrow ? 1 : 2) }),
        window.classes.length > 12 ? make('p', { class: 'hint' }, 'The twelve most frequent ones.') : null] : null,
      stream.adapted ? adaptedView(stream.adapted, window) : null,
      labels ? [make('h2', {}, 'Labels'), make('p', {}, `${labels.labels} labels` + (labels.powered ? `: ${percent(labels.powered.estimate.accuracy)} (${interval(labels.powered.estimate)}), as sure as ${labels.powered.effective_labels.toFixed(0)} labels alone` : ', five are needed'))] : null)),
    window && window.explanation.length ? [make('h2', {}, 'In words'), window.explanation.map((text) => make('p', {}, sentence(text)))] : null);
};

const KEYS = '1234567890qwertzuiopasdfghjkl';
const showLabels = async (name) => {
  const base = 'streams/' + encodeURIComponent(name);
  const back = make('p', {}, make('a', { href: '#stream/' + encodeURIComponent(name) }, 'Back to the stream'));
  if (!questions.length || questions.stream !== name) {
    questions = (await get(base + '/ask?n=20')).questions;
    questions.stream = name;
    questions.done = 0;
  }
  const [question] = questions;
  if (!question) {
    show('label/' + name, 'Labels', make('h1', {}, 'Nothing to label'), make('p', {}, 'No image of this stream waits for a label.'), back);
    return;
  }
  const pass = (wasTaken) => {
    const { stream, done } = questions;
    questions = Object.assign(questions.slice(1), { stream, done: done + wasTaken });
    drawn = '';
    refresh();
  };
  const answer = async (verdict) => {
    const body = JSON.stringify({ stream: name, labels: [{ image: question.image, ...verdict }] });
    const response = await ask('labels', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
    // A question that the server has forgotten is passed over.
    if (!response.ok && response.status !== 409) throw new Error((await response.json()).error || response.statusText);
    pass(response.ok);
  };
  const few = settings.classes.length <= KEYS.length;
  const choices = few ? settings.classes.map((text, number) => [KEYS[number], text, { class: number }]) : [];
  const verdicts = [['y', 'right', { right: true }], ['n', 'wrong', { right: false }]];
  const image = (question.is_kept && await picture(`${base}/images/${question.image}`, `image ${question.image}`)) || make('p', { class: 'missing' }, 'The image is not kept here; look it up by its number.');
  document.onkeydown = (event) => {
    if (!location.hash.startsWith('#label/') || event.ctrlKey || event.metaKey || event.altKey) return;
    const choice = [...choices, ...verdicts].find(([key]) => key === event.key);
    if (choice) answer(choice[2]).catch(report);
    else if (event.key === ' ') pass(0);
  };
  const button = ([key, text, verdict]) => make('button', { type: 'button', class: verdict.class === question.predicted ? 'predicted' : null, onclick: () => answer(verdict).catch(report) }, make('kbd', {}, key), text);
  show('label/' + name, 'Labels', make('h1', {}, `Which class is image ${count(question.image)}?`),
    make('p', {}, `The model says ${question.predicted_name}, sure to ${percent(question.guess)}. ${questions.length} left, ${questions.done} done.`),
    make('div', { class: 'question' }, image, make('div', {}, choices.length ? make('div', { class: 'answers' }, choices.map(button)) : null,
      make('p', { class: 'hint' }, choices.length ? 'Or only whether the model is right:' : 'Is the model right?'),
      make('div', { class: 'verdicts' }, verdicts.map(button), make('button', { type: 'button', onclick: () => pass(0) }, make('kbd', {}, 'space'), 'skip')))),
    back);
};

const mib = (bytes) => `${count(Math.round(bytes / 2 ** 20))} MiB`;
const showSettings = () => {
  const { monitor, limits, needs_token: token, adapt } = settings;
  const yes = (is) => (is ? 'yes' : 'no');
  const looks = { batch_statistics: 'under the statistics of batches of 64', recentred_embeddings: 'with embeddings moved to the clean mean', none: 'none' };
  const part = (title, rows) => [make('h2', {}, title), make('table', { class: 'settings' }, make('tbody', {}, rows.map(([name, value]) => make('tr', {}, make('th', { scope: 'row' }, name), make('td', {}, String(value))))))];
  show('settings', 'Settings', make('h1', {}, 'Settings in force'),
    make('div', { class: 'columns' },
      make('div', {}, part('Model', [['name', settings.model], ['version', settings.model_version], ['classes', count(settings.classes.length)], ['accuracy on the calibration’s images', percent(settings.clean_accuracy)],
        ['predictions', settings.predicts ? 'made here' : 'by another server'], ['second look', looks[settings.second_look] || settings.second_look],
        ['adapts by', adapt ? adapt.method : 'nothing'], ['estimates the gain of adapting', yes(settings.estimates_gain)]]),
      part('Windows and alarms', [['images of a window', count(monitor.window_images)], ['seconds of a window', count(monitor.window_seconds)], ['level of intervals', percent(monitor.level, 0)],
        ['false alarms of a stream, ever', percent(monitor.false_alarms)], ['line for the accuracy', monitor.accuracy_line ? percent(monitor.accuracy_line) : 'none'], ['webhook', yes(settings.has_webhook)]])),
      make('div', {}, part('Limits', [['body of a request', mib(limits.body_bytes)], ['images of a request', count(limits.request_images)], ['pixels of an image', count(limits.image_pixels)], ['what may wait', mib(limits.queue_bytes)],
        ['seconds of a request', count(limits.seconds)], ['connections', count(limits.connections)], ['streams', count(limits.streams)], ['streams in memory', count(limits.streams_in_memory)]]),
      part('Access', [['reading needs a token', yes(token.read)], ['writing needs a token', yes(token.write)], ['images are kept', settings.keep_images_seconds ? `for ${many(settings.keep_images_seconds / 3600, 'hour')}` : 'never']]))),
    make('p', { class: 'hint' }, `flipcast ${settings.version}; `, make('a', { href: 'settings' }, 'as JSON'), '; ', make('a', { href: 'metrics' }, 'metrics for Prometheus')));
};

const report = (error) => {
  status.textContent = `${new Date().toLocaleTimeString()}: ${error.message}`;
  status.parentElement.classList.add('wrong');
};
const draw = async () => {
  const [view, ...rest] = location.hash.slice(1).split('/');
  try {
    const name = decodeURIComponent(rest.join('/'));
    if (!settings) settings = await get('settings');
    document.getElementById('model').textContent = `${settings.model}, version ${settings.model_version}`;
    for (const link of document.querySelectorAll('nav [data-view]')) link.toggleAttribute('aria-current', link.dataset.view === (view === 'settings' ? 'settings' : 'streams'));
    if (view === 'stream') await showStream(name);
    else if (view === 'label') await (drawn === 'label/' + name ? null : showLabels(name));
    else if (view === 'settings') showSettings();
    else await showStreams(view === 'after' ? name : '');
    status.textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
    status.parentElement.classList.remove('wrong');
  } catch (error) {
    if (drawn !== 'token' && !main.querySelector('h1')) main.replaceChildren(make('h1', {}, 'Nothing to show'), make('p', {}, sentence(error.message)), make('p', {}, make('a', { href: '#' }, 'All streams')));
    report(error);
  }
};

// One after the other: two that overlap would each ask for questions, and the later would bring back what was answered.
let drawing = Promise.resolve();
const refresh = () => (drawing = drawing.then(draw));

const theme = document.getElementById('theme');
const themes = ['automatic', 'light', 'dark'];
const setTheme = (name) => {
  if (name === 'automatic') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.textContent = 'Theme: ' + name;
};
theme.addEventListener('click', () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme || 'automatic') + 1) % 3];
  localStorage.setItem('theme', next);
  setTheme(next);
});
setTheme(themes.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'automatic');
window.addEventListener('hashchange', () => {
  drawn = '';
  main.replaceChildren();
  refresh();
});
const again = () => setTimeout(async () => {
  // Drawing anew would take the focus from whoever uses the keyboard.
  if (!document.hidden && drawn !== 'token' && !main.contains(document.activeElement)) await refresh();
  again();
}, REFRESH);
refresh();
again();
